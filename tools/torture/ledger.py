"""A file in the repository with a line of JSON for each torture run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


OK, TORN = "ok", "torn"
"""Outcomes of a successful run: no violation, or a batch that was torn as planned and detected."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The runs in the file `path`, each with its `seed`."""

    path: Path

    def lines(self) -> list[dict[str, Any]]:
        """Return every run so far."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def next_seed(self) -> int:
        """Return a seed above those of all runs."""
        return 1 + max((line["seed"] for line in self.lines()), default=0)

    def new_seeds(self, wanted: int, **labels: object) -> list[int]:
        """Return the first `wanted` seeds that no run with these labels has used."""
        done = {line["seed"] for line in self.lines() if labels.items() <= line.items()}
        return list(islice((seed for seed in count(1) if seed not in done), wanted))

    def latest_streams(self) -> list[dict[str, Any]]:
        """Return the latest run of each sink and seed."""
        defaults = {"kafka": "4.3.1", "two_phase": False}
        lines = ({**defaults, **line} for line in self.lines())
        return list({(line["sink"], line["seed"]): line for line in lines}.values())

    def append(self, line: dict[str, Any]) -> None:
        """Append a run."""
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


def summary(lines: Sequence[dict[str, Any]]) -> str:
    """Return the number of runs per outcome, and the seeds whose latest run failed."""
    outcomes = Counter(line["outcome"] for line in lines)
    records = sum(line["records"] for line in lines)
    text = f"{len(lines)} runs, {records:,} records, {outcomes[OK]} ok"
    latest = {line["seed"]: line["outcome"] for line in lines}
    failing = sorted(seed for seed, outcome in latest.items() if outcome != OK)
    return text + (f"; failing seeds: {', '.join(map(str, failing))}" if failing else "")


PRODUCER = Ledger(Path(__file__).parent / "producer" / "ledger.jsonl")
STREAMS = Ledger(Path(__file__).parent / "streams" / "ledger.jsonl")
