"""One line for each run, kept in the repository."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEDGER = Path(__file__).with_name("ledger.jsonl")


@dataclass(frozen=True, slots=True)
class Ledger:
    """Lines of JSON at `path`."""

    path: Path = LEDGER

    def lines(self) -> list[dict[str, Any]]:
        """Every run so far."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def next_seed(self) -> int:
        """A seed that was never run."""
        return 1 + max((line["seed"] for line in self.lines()), default=0)

    def append(self, line: dict[str, Any]) -> None:
        """Add a run."""
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def failing(self) -> list[int]:
        """Seeds whose latest run was not ok."""
        latest = {line["seed"]: line["outcome"] for line in self.lines()}
        return sorted(seed for seed, outcome in latest.items() if outcome != "ok")

    def summary(self) -> str:
        """How many runs of which outcome, and the seeds of failures."""
        lines = self.lines()
        outcomes = Counter(line["outcome"] for line in lines)
        records = sum(line["records"] for line in lines)
        text = f"{len(lines)} runs, {records:,} records, {outcomes['ok']} ok"
        failing = self.failing()
        return text + (f"; failing seeds: {', '.join(map(str, failing))}" if failing else "")
