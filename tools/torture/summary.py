"""What all runs of the ledger come to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def summary(lines: Sequence[dict[str, Any]]) -> str:
    """How many runs of which outcome, and the seeds whose latest run was not ok."""
    outcomes = Counter(line["outcome"] for line in lines)
    records = sum(line["records"] for line in lines)
    text = f"{len(lines)} runs, {records:,} records, {outcomes['ok']} ok"
    latest = {line["seed"]: line["outcome"] for line in lines}
    failing = sorted(seed for seed, outcome in latest.items() if outcome != "ok")
    return text + (f"; failing seeds: {', '.join(map(str, failing))}" if failing else "")
