"""Write the tables of a run to docs/benchmarks.md and the README.

The results of a run are a JSON object with the sections of `empty`, each with one entry for each
part.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.benchmarks.comparison import comparison
from tools.benchmarks.tables import Table, Target, target_table
from tools.docs.pages import DOCS, write_block
from tools.support.jars import ROOT

Found = Mapping[str, Any]

DRAFT = ROOT / "build" / "benchmarks"
FIGURES = "figures.json"
PUBLISHED = DOCS / "benchmarks"
_LOAD = "; load average before the start "


def empty() -> dict[str, dict[str, Any]]:
    """Return the results of a run without parts."""
    return {name: {} for name in ("machines", "seconds", "failures", "parts", "tables", "targets")}


def save(figures: Found, folder: Path = DRAFT) -> None:
    """Write the results to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = (f"{json.dumps(section)}: {_by_line(parts)}" for section, parts in figures.items())
    (folder / FIGURES).write_text("{\n" + ",\n".join(sections) + "\n}\n", encoding="utf-8")


def _by_line(parts: Found) -> str:
    """Return the results of parts as JSON with one line for each result."""
    texts = []
    for part, results in parts.items():
        lines = [json.dumps(result) for result in results] if isinstance(results, list) else None
        text = json.dumps(results) if lines is None else "[\n" + ",\n".join(lines) + "\n]"
        texts.append(f"{json.dumps(part)}: {text}")
    return "{\n" + ",\n".join(texts) + "\n}"


def markdown(figures: Found) -> str:
    """Return the tables of the results."""
    texts = (table.markdown() for table in tables(figures))
    blocks = "\n\n".join([*_machines(figures["machines"]), *texts])
    return f"{blocks}\n\n[Every sample as JSON]({PUBLISHED.name}/{FIGURES})\n"


def _machines(machines: Mapping[str, str]) -> list[str]:
    """Return a paragraph for each machine, with the load before each of its parts."""
    loads: dict[str, list[str]] = {}
    for part, text in machines.items():
        machine, load = text.split(_LOAD)
        loads.setdefault(machine, []).append(f"{part} {load}")
    return [f"{machine}{_LOAD}{', '.join(parts)}" for machine, parts in loads.items()]


def tables(figures: Found) -> list[Table]:
    """Return the tables of all parts, of the parts that failed, and of the targets."""
    all_tables = [Table(**fields) for part in figures["tables"].values() for fields in part]
    failed = [
        (part, trace.strip().splitlines()[-1][:200]) for part, trace in figures["failures"].items()
    ]
    if failed:
        all_tables.append(Table("Parts that failed", ("part", "why"), failed))
    targets = [Target(**fields) for part in figures["targets"].values() for fields in part]
    return [*all_tables, target_table(targets)]


def publish(new: Found) -> None:
    """Write the results to the pages. Parts that were not measured keep earlier figures."""
    earlier = json.loads((PUBLISHED / FIGURES).read_text(encoding="utf-8"))
    figures = merged(earlier, new)
    save(figures, PUBLISHED)
    write_block("figures", markdown(figures))
    write_block("comparison", comparison(figures["parts"]))


def merged(earlier: Found, new: Found) -> Found:
    """Return the earlier figures, with the parts in `new` replaced."""
    again = set(new["seconds"])
    kept = {
        section: {part: results for part, results in parts.items() if part not in again}
        for section, parts in earlier.items()
    }
    return {section: {**kept.get(section, {}), **parts} for section, parts in new.items()}
