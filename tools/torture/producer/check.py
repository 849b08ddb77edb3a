"""Checks of a run, as pure functions of the producer's reports and the records in the topic."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.report.partition_report import PartitionReport
from tools.support.readers import ForeignRecord
from tools.torture.producer.plan import Partitioning, Plan
from tools.torture.producer.writer import SessionResult, partition_of

_SLACK_S = 8.0
_STATUSES = (DeliveryStatus.POSSIBLY_PERSISTED, DeliveryStatus.NOT_PERSISTED)


@dataclass(frozen=True, slots=True)
class Found:
    """A record in the topic: its partition and offset, and the session and row it came from."""

    partition: int
    offset: int
    session: int
    number: int


def violations(
    plan: Plan, sessions: Sequence[SessionResult], log: Iterable[ForeignRecord] | None
) -> list[str]:
    """Return descriptions of all violations; `log` is None if the topic no longer exists."""
    by_session: defaultdict[int, list[Found]] = defaultdict(list)
    for record in map(_parse, log or ()):
        by_session[record.session].append(record)
    texts = []
    for result in sessions:
        mine = by_session.pop(result.session, [])
        wrong = [
            *_check_report(plan, result),
            *(() if log is None else _check_log(plan, result, mine)),
        ]
        texts += [f"session {result.session}: {text}" for text in wrong]
    return texts + [f"records of session {number}, which did not exist" for number in by_session]


def _parse(record: ForeignRecord) -> Found:
    session, number, _ = (record.value or b"").split(b":", 2)
    return Found(record.partition, record.offset, int(session), int(number))


# Check the session's report.


def _check_report(plan: Plan, result: SessionResult) -> Iterator[str]:
    total = result.report.records
    if not result.accepted <= total <= result.attempted:
        appended = f"{result.accepted} to {result.attempted} rows were appended"
        yield f"{appended}, but the report has {total}"
    yield from _failure(plan, result)
    counted = Counter[int]()
    for ack in result.acks:
        counted[ack.partition] += ack.records
    for part in result.report.partitions:
        if counted[part.partition] != part.persisted:
            yield f"{part.key}: persisted {part.persisted}, acknowledged {counted[part.partition]}"
    limit = int(dict(plan.options)["delivery.timeout.ms"]) / 1000 + _SLACK_S
    if result.longest_flush > limit:
        yield f"flush took {result.longest_flush:.1f} s"


def _failure(plan: Plan, result: SessionResult) -> Iterator[str]:
    if result.error is None and result.report.persisted != result.report.records:
        persisted, records = result.report.persisted, result.report.records
        yield f"no failure, but only {persisted} of {records} persisted"
    error = result.error or result.append_error
    recreated = plan.topic_may_be_deleted and "recreated during the write" in str(error)
    if error is not None and plan.must_succeed and not recreated:
        yield f"the plan does not explain {type(error).__name__}: {error}"
    if result.error is None:
        return
    if not isinstance(result.error, DeliveryError) or "sender thread stopped" in str(result.error):
        yield f"failed with {type(result.error).__name__}: {result.error}"
        return
    listed = Counter[tuple[int, DeliveryStatus]]()
    for entry in result.error.statuses:
        listed[entry.partition, entry.status] += entry.records
    for part in result.report.partitions:
        for status in _STATUSES:
            reported, lists = getattr(part, status.value), listed[part.partition, status]
            if reported != lists:
                yield f"{part.key}: the report has {reported} {status}, the error {lists}"


# Check the log.


def _check_log(plan: Plan, result: SessionResult, log_records: list[Found]) -> Iterator[str]:
    parts = {part.partition: part for part in result.report.partitions}
    for partition in range(plan.partitions):
        part = parts.get(partition) or PartitionReport(topic="", partition=partition)
        here = [record for record in log_records if record.partition == partition]
        here.sort(key=attrgetter("offset"))
        for text in _partition(plan, result, part, here):
            yield f"partition {partition}: {text}"
    missing = set(range(result.attempted)) - {record.number for record in log_records}
    if result.error is None and result.append_error is None and missing:
        if not plan.topic_may_be_deleted:
            yield f"{len(missing)} rows are missing; the first is {min(missing)}"
        elif log_records:
            lost = result.attempted - len(log_records)
            yield f"LOST: {lost} rows were written to a topic that was deleted during the write"
    if any(record.number >= result.attempted for record in log_records):
        yield "the topic has rows that were never appended"
    if len(log_records) != len({record.number for record in log_records}):
        yield "the topic has duplicate rows"


def _partition(
    plan: Plan, result: SessionResult, part: PartitionReport, here: list[Found]
) -> Iterator[str]:
    numbers = [record.number for record in here]
    wrong = [(a, b) for a, b in pairwise(numbers) if a >= b]
    if wrong:
        yield f"wrong order: {wrong[0][1]} is after {wrong[0][0]}; {len(wrong)} cases"
    if len(numbers) > part.persisted + part.possibly_persisted:
        yield (
            f"found {len(numbers)} rows, persisted {part.persisted}, "
            f"possibly {part.possibly_persisted}, not {part.not_persisted}"
        )
    if plan.topic_may_be_deleted:
        return
    if len(numbers) < part.persisted:
        yield f"LOST: found {len(numbers)} rows, persisted {part.persisted}"
    if plan.partitioning is Partitioning.EXPLICIT:
        due = [n for n in range(result.attempted) if partition_of(plan, n) == part.partition]
        gap = next((n for n, m in zip(due, numbers, strict=False) if n != m), None)
        if gap is not None and not wrong:
            yield f"a gap: row {gap} is missing before {numbers[-1]}"
    yield from _offsets(result, part, {record.offset for record in here})


def _offsets(result: SessionResult, part: PartitionReport, offsets: set[int]) -> Iterator[str]:
    known = [ack for ack in result.acks if ack.partition == part.partition and ack.base_offset >= 0]
    claimed: set[int] = set()
    for ack in known:
        span = set(range(ack.base_offset, ack.base_offset + ack.records))
        if not span <= offsets:
            yield f"offsets {min(span)} to {max(span)} do not contain this session's rows"
        if span & claimed:
            yield f"offsets {min(span)} to {max(span)} were reported twice"
        claimed |= span
    first, last = min(claimed, default=None), max(claimed, default=None)
    if (part.first_offset, part.last_offset) != (first, last):
        reported = f"{part.first_offset} to {part.last_offset}"
        yield f"the report has offsets {reported}, the acknowledgements {first} to {last}"
