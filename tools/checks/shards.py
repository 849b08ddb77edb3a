"""Deals the files of a phase out to shards, by how long each took when it was measured last."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tools.checks.phases import Phase

ROOT = Path(__file__).resolve().parents[2]
DURATIONS = Path(__file__).with_name("durations.json")
"""Seconds by test file; `make durations` measures them anew."""
UNKNOWN_S = 3.0
"""What a file takes that was never measured."""
_COMMAND_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What one process does for a phase: the `number`th of `of` shards, about `seconds` long.

    It runs `command`, or pytest on `tests`; `missing` are paths of the phase that aren't there.
    """

    phase: Phase
    number: int
    of: int
    seconds: float
    command: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.phase.name if self.of == 1 else f"{self.phase.name} {self.number}/{self.of}"


def load_durations(path: Path = DURATIONS) -> dict[str, float]:
    """Seconds by test file, as measured last."""
    durations: dict[str, float] = json.loads(path.read_text())
    return durations


def store_durations(durations: Mapping[str, float], path: Path = DURATIONS) -> None:
    """Write down what was measured."""
    rounded = {name: round(seconds, 1) for name, seconds in sorted(durations.items())}
    path.write_text(json.dumps(rounded, indent=1) + "\n")


def shards_of(phase: Phase, durations: Mapping[str, float], root: Path = ROOT) -> list[Shard]:
    """The phase's commands, one shard each, then its files, dealt out."""
    commands = len(phase.commands)
    missing = tuple(path for path in phase.tests if not (root / path).exists())
    bins = deal(_units(_files(phase, root), phase), durations, phase.shards)
    if phase.tests and not bins:
        bins = [()]
    of = commands + len(bins)
    made = [
        Shard(phase=phase, number=number, of=of, seconds=_COMMAND_S, command=command)
        for number, command in enumerate(phase.commands, 1)
    ]
    for number, files in enumerate(bins, commands + 1):
        seconds = sum(durations.get(file, UNKNOWN_S) for file in files)
        made.append(
            Shard(phase=phase, number=number, of=of, seconds=seconds, tests=files, missing=missing)
        )
    return made


def deal(
    units: list[tuple[str, ...]], durations: Mapping[str, float], shards: int
) -> list[tuple[str, ...]]:
    """Files in units that stay together: the longest unit first, to the shard with least to do.

    No shard is empty.
    """

    def seconds(unit: tuple[str, ...]) -> float:
        return sum(durations.get(file, UNKNOWN_S) for file in unit)

    loads = [0.0] * shards
    bins: list[list[str]] = [[] for _ in range(shards)]
    for unit in sorted(units, key=lambda unit: (-seconds(unit), unit)):
        least = loads.index(min(loads))
        loads[least] += seconds(unit)
        bins[least].extend(unit)
    return [tuple(sorted(names)) for names in bins if names]


def _units(files: list[str], phase: Phase) -> list[tuple[str, ...]]:
    """The phase's groups, and each other file by itself."""
    groups = [
        tuple(file for file in files if any(_is_in(file, path) for path in group))
        for group in phase.together
    ]
    grouped = {file for group in groups for file in group}
    return [*filter(None, groups), *((file,) for file in files if file not in grouped)]


def _is_in(file: str, path: str) -> bool:
    return file == path or file.startswith(f"{path}/")


def _files(phase: Phase, root: Path) -> list[str]:
    paths = set(_paths(phase, root))
    names = {str(path.relative_to(root) if root in path.parents else path) for path in paths}
    return sorted(name for name in names if not _left_out(name, phase))


def _left_out(name: str, phase: Phase) -> bool:
    return any(_is_in(name, path) for path in phase.without)


def _paths(phase: Phase, root: Path) -> Iterator[Path]:
    for name in phase.tests:
        path = root / name
        if path.is_dir():
            yield from path.rglob("test_*.py")
        elif path.exists():
            yield path
