"""The ledgers: files in the repository with one line of JSON for each torture run."""

import json
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

OK, TORN = "ok", "torn"
"""Outcomes of successful runs: no violation, or an expected torn batch that was detected."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The results of all runs, in the file `path`."""

    path: Path

    def lines(self) -> list[dict[str, Any]]:
        """Return the results of all runs."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines() if line.strip()]

    def new_seeds(self, wanted: int, **labels: object) -> list[int]:
        """Return the `wanted` lowest seeds that no run with these labels has used."""
        done = {line["seed"] for line in self.lines() if labels.items() <= line.items()}
        return list(islice((seed for seed in count(1) if seed not in done), wanted))

    def latest_streams(self) -> list[dict[str, Any]]:
        """Return the latest result for each sink and seed."""
        defaults = {"kafka": "4.3.1", "two_phase": False}
        lines = ({**defaults, **line} for line in self.lines())
        return list({(line["sink"], line["seed"]): line for line in lines}.values())

    def append(self, line: dict[str, Any]) -> None:
        """Append the result of a run."""
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")


PRODUCER = Ledger(Path(__file__).parent / "producer" / "ledger.jsonl")
STREAMS = Ledger(Path(__file__).parent / "streams" / "ledger.jsonl")
