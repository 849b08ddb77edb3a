"""What must hold after a run: a pure function of what was to be written and what was read."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.torture_eos.plans.source import Source

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Found:
    """A record of the topic, or of the dead letter topic, as a read_committed reader saw it."""

    partition: int
    offset: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """`lost` and `doubled` count records; `wrong` tells what else does not hold."""

    lost: int
    doubled: int
    wrong: tuple[str, ...]


def findings(
    source: Source, topic: Sequence[Found], dead: Sequence[Found], *, once: bool
) -> Findings:
    """What is wrong with what was read; `once`: every number must be there exactly once."""
    good = set(range(source.total)) - source.dead
    parts = (("topic", good, topic), ("dead letters", set(source.dead), dead))
    lost, doubled, wrong = 0, 0, list[str]()
    for name, wanted, found in parts:
        counts = Counter(record.number for record in found)
        missing = sorted(wanted - counts.keys())
        again = {number: count for number, count in counts.items() if count > 1}
        strange = sorted(counts.keys() - wanted)
        lost += len(missing)
        doubled += sum(again.values()) - len(again)
        wrong += [f"{name}: LOST {_few(missing)}"] if missing else []
        wrong += [f"{name}: DOUBLED {_few(sorted(again))}"] if again and once else []
        wrong += [f"{name}: never to be written there: {_few(strange)}"] if strange else []
    wrong += _misplaced(source, topic)
    if once:
        wrong += _out_of_order(source, topic)
    return Findings(lost=lost, doubled=doubled, wrong=tuple(wrong))


def _few(numbers: Sequence[int]) -> str:
    text = ", ".join(map(str, numbers[:_SHOWN]))
    return f"{len(numbers)} ({text}{', ...' if len(numbers) > _SHOWN else ''})"


def _misplaced(source: Source, found: Iterable[Found]) -> Iterator[str]:
    if not source.explicit:
        return
    wrong = sorted({one.number for one in found if one.partition != source.place(one.number)})
    if wrong:
        yield f"topic: in the wrong partition: {_few(wrong)}"


def _out_of_order(source: Source, found: Iterable[Found]) -> Iterator[str]:
    """Of a file's records one task wrote each partition's; micro-batches come one by one."""
    by_file: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for one in sorted(found, key=lambda record: (record.partition, record.offset)):
        file = source.file_of(one.number)
        by_file[one.partition, file].append(one.number)
        by_partition[one.partition].append(file // source.files_per_batch)
    for (partition, file), numbers in by_file.items():
        for first, second in pairwise(numbers):
            if second < first:
                yield f"partition {partition}, file {file}: {second} comes after {first}"
                break
    for partition, batches in by_partition.items():
        if batches != sorted(batches):
            yield f"partition {partition}: micro-batches are mixed: {batches[:40]}"
