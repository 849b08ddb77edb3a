"""Table of all runs in the ledger."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.torture.cluster import Release
from tools.torture.streams.scenarios import Kind, Sink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LEDGER = Path(__file__).with_name("ledger.jsonl")
OK, TORN = "ok", "torn"
"""Outcomes of a good run: no violation, or a batch that was torn as planned and detected."""


def latest(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the latest run of each seed."""
    defaults = {"kafka": Release.V4_3_1, "two_phase": False}
    return list({(line["sink"], line["seed"]): {**defaults, **line} for line in lines}.values())


def table(lines: Iterable[dict[str, Any]]) -> str:
    """Return a row for each kind, with runs, ok, lost and doubled for each sink."""
    cells: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in latest(lines):
        cells[line["kind"], line["sink"]].append(line)
        cells["all", line["sink"]].append(line)
    sinks = [sink for sink in Sink if ("all", sink) in cells]
    kinds = [*(kind for kind in Kind if any((kind, sink) in cells for sink in sinks)), "all"]
    head = ["kind of fault", *(f"{sink}: runs, ok, lost, doubled" for sink in sinks)]
    rows = [[kind, *(_cell(cells.get((kind, sink), [])) for sink in sinks)] for kind in kinds]
    return "\n".join(_aligned([head, *rows]))


def _cell(lines: list[dict[str, Any]]) -> str:
    if not lines:
        return "-"
    good = sum(line["result"] in {OK, TORN} for line in lines)
    lost, doubled = (sum(line[name] for line in lines) for name in ("lost", "doubled"))
    return f"{len(lines):4} {good:4} {lost:6,} {doubled:7,}"


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
