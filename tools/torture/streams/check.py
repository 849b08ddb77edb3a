"""Independent readers of a topic, and checks of a run (pure functions of the records read)."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tools.support.readers import COMMITTED, UNCOMMITTED, by_confluent, ranges
from tools.support.waiting import poll
from tools.torture.streams.plan import Plan, Source, number_of
from tools.torture.streams.scenarios import LOG, Kind, Step

_SHOWN = 8
_TIMEOUT_S = 60
_TRACE = "trace.log"
_FETCH_FAILED = "FetchFailed"
_BEGUN = re.compile(rf"{re.escape(Step.TASK_BEGUN)} #\d+ (\{{.*\}})")


@dataclass(frozen=True, slots=True)
class Found:
    """A record that a read_committed reader found in the topic or the dead letter topic."""

    partition: int
    offset: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Violations: the numbers of lost and duplicated records, and descriptions in `wrong`."""

    lost: int
    doubled: int
    wrong: tuple[str, ...]


def findings(
    source: Source, topic: Sequence[Found], dead: Sequence[Found], *, once: bool
) -> Findings:
    """Return all violations in the records; with `once`, duplicates are violations."""
    good = set(range(source.total)) - source.dead
    parts = (("topic", good, topic), ("dead letters", set(source.dead), dead))
    lost, doubled, wrong = 0, 0, list[str]()
    for name, expected, written in parts:
        counts = Counter(record.number for record in written)
        missing = sorted(expected - counts.keys())
        again = {number: count for number, count in counts.items() if count > 1}
        strange = sorted(counts.keys() - expected)
        lost += len(missing)
        doubled += sum(again.values()) - len(again)
        wrong += [f"{name}: LOST {_few(missing)}"] if missing else []
        wrong += [f"{name}: DOUBLED {_few(sorted(again))}"] if again and once else []
        wrong += [f"{name}: unexpected records: {_few(strange)}"] if strange else []
    wrong += _misplaced(source, topic)
    if once:
        wrong += _out_of_order(source, topic)
    return Findings(lost=lost, doubled=doubled, wrong=tuple(wrong))


def _few(numbers: Sequence[int]) -> str:
    text = ", ".join(map(str, numbers[:_SHOWN]))
    return f"{len(numbers)} ({text}{', ...' if len(numbers) > _SHOWN else ''})"


def _misplaced(source: Source, written: Iterable[Found]) -> Iterator[str]:
    if not source.explicit:
        return
    wrong = sorted(
        {record.number for record in written if record.partition != source.place(record.number)}
    )
    if wrong:
        yield f"topic: in the wrong partition: {_few(wrong)}"


def _out_of_order(source: Source, written: Iterable[Found]) -> Iterator[str]:
    """Yield violations of the order: one task writes each file, and batches are sequential."""
    by_file: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for record in sorted(written, key=lambda record: (record.partition, record.offset)):
        file = source.file_of(record.number)
        by_file[record.partition, file].append(record.number)
        by_partition[record.partition].append(file // source.files_per_batch)
    for (partition, file), numbers in by_file.items():
        for first, second in pairwise(numbers):
            if second < first:
                yield f"partition {partition}, file {file}: {second} comes after {first}"
                break
    for partition, batches in by_partition.items():
        if batches != sorted(batches):
            yield f"partition {partition}: micro-batches are mixed: {batches[:40]}"


def read(servers: str, topic: str, isolation: str = COMMITTED) -> list[Found]:
    """Return all records that can currently be read with an isolation level."""
    return [
        Found(record.partition, record.offset, number_of(record.value))
        for record in by_confluent(servers, topic, isolation)
    ]


def blocked_partitions(servers: str, topic: str) -> dict[int, int]:
    """Return the first blocked offset of each partition that an open transaction blocks."""
    stable = ranges(servers, topic)
    return {
        partition: stable[partition][1]
        for partition, (_, end) in ranges(servers, topic, UNCOMMITTED).items()
        if stable[partition][1] < end
    }


def await_stable(servers: str, topic: str, seconds: float) -> dict[int, int]:
    """Wait until no partition is blocked; return those that are still blocked after a timeout.

    Markers are written with a delay after a commit.
    """
    is_stable = poll(lambda: not blocked_partitions(servers, topic), seconds)
    return {} if is_stable else blocked_partitions(servers, topic)


class TopicWatch:
    """Polls the number of offsets in a topic."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        settings = {
            "bootstrap.servers": servers,
            "group.id": "watch",
            "isolation.level": UNCOMMITTED,
        }
        self._consumer = Consumer({**settings, "reconnect.backoff.max.ms": 500, "log_level": 0})
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]

    def count(self) -> int:
        """Return the number of offsets in the topic, or -1 if a broker does not respond."""
        count = 0
        try:
            for partition in self._partitions:
                low, high = self._consumer.get_watermark_offsets(partition, timeout=1.0)
                count += high - low
        except (KafkaException, TypeError):
            return -1
        return count

    def close(self) -> None:
        self._consumer.close()


def fence_producer(servers: str, transactional_id: str) -> None:
    """Fence the producer of a transactional id by initializing a second producer with it."""
    settings = {"bootstrap.servers": servers, "transactional.id": transactional_id, "log_level": 0}
    Producer(settings).init_transactions(_TIMEOUT_S)


def unmet_aim(plan: Plan, folder: Path, logged: str) -> str:
    """Return why a run did not have the intended effect, or an empty string if it did.

    The logs in `folder` show if a stage was retried (because its tasks could not fetch the data of
    a lost executor), and if a task had two attempts.
    """
    step = plan.faults[0].stop.step if plan.faults else None
    if plan.kind is Kind.STAGE_RETRIED and step not in LOG and _FETCH_FAILED not in logged:
        return "no stage was retried"
    if (
        plan.kind is Kind.SPECULATION
        and most_attempts((folder / _TRACE).read_text(encoding="utf-8")) < 2
    ):
        return "no task was run twice"
    return ""


def most_attempts(trace: str) -> int:
    """Return the maximum number of attempts per task, according to the trace of a run."""
    attempts: defaultdict[tuple[int | None, int], set[int]] = defaultdict(set)
    for match in _BEGUN.finditer(trace):
        where = json.loads(match[1])
        attempts[where["batch"], where["task"]].add(where["attempt"])
    return max(map(len, attempts.values()), default=0)
