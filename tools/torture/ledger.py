"""A file in the repository with a line of JSON for each torture run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import count, islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ledger:
    """The runs in the file `path`, each with its `seed`."""

    path: Path

    def lines(self) -> list[dict[str, Any]]:
        """Return every run so far."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def next_seed(self, **labels: str) -> int:
        """Return a seed that no run with these labels has used."""
        seeds = (line["seed"] for line in self.lines() if labels.items() <= line.items())
        return 1 + max(seeds, default=0)

    def new_seeds(self, first: int, wanted: int, **labels: str) -> list[int]:
        """Return `wanted` seeds, starting at `first`, that no run with these labels has used."""
        done = {line["seed"] for line in self.lines() if labels.items() <= line.items()}
        return list(islice((seed for seed in count(first) if seed not in done), wanted))

    def append(self, line: dict[str, Any]) -> None:
        """Append a run."""
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def summary(lines: Sequence[dict[str, Any]]) -> str:
    """Return the number of runs per outcome, and the seeds whose latest run failed."""
    outcomes = Counter(line["outcome"] for line in lines)
    records = sum(line["records"] for line in lines)
    text = f"{len(lines)} runs, {records:,} records, {outcomes['ok']} ok"
    latest = {line["seed"]: line["outcome"] for line in lines}
    failing = sorted(seed for seed, outcome in latest.items() if outcome != "ok")
    return text + (f"; failing seeds: {', '.join(map(str, failing))}" if failing else "")
