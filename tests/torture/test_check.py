"""The checker accepts a correct run and reports each kind of error."""

from dataclasses import replace

import pytest

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.report.partition_report import PartitionReport
from tools.support.readers import ForeignRecord
from tools.torture.producer.check import violations
from tools.torture.producer.plan import ClusterFault, Partitioning, Plan, draw
from tools.torture.producer.writer import Ack, SessionResult, value

PLAN: Plan = replace(
    draw(1),
    partitions=1,
    partitioning=Partitioning.EXPLICIT,
    cluster_faults=(ClusterFault.NONE,),
    faults=(),
    patient=True,
)
MAY_FAIL = replace(PLAN, patient=False)
ROWS = 10


def log_of(numbers: list[int], first: int = 0) -> list[ForeignRecord]:
    return [
        ForeignRecord(
            topic="t",
            partition=0,
            offset=first + offset,
            timestamp=0,
            key=None,
            value=value(PLAN, 0, number),
        )
        for offset, number in enumerate(numbers)
    ]


def written(persisted: int = ROWS, possibly: int = 0, missing: int = 0) -> SessionResult:
    part = PartitionReport(
        topic="t",
        partition=0,
        persisted=persisted,
        possibly_persisted=possibly,
        not_persisted=missing,
        first_offset=0,
        last_offset=persisted - 1,
    )
    session = SessionResult(session=0, attempted=ROWS, accepted=ROWS, acks=[Ack(0, 0, persisted)])
    session.report = DeliveryReport(partitions=(part,))
    if persisted < ROWS:
        counts = {
            DeliveryStatus.POSSIBLY_PERSISTED: possibly,
            DeliveryStatus.NOT_PERSISTED: missing,
        }
        statuses = tuple(
            PartitionStatus(topic="t", partition=0, records=count, status=status)
            for status, count in counts.items()
        )
        session.error = DeliveryError("it failed", statuses=statuses)
    return session


FAILED = written(persisted=4, missing=6)
NO_ERROR, OTHER_ERROR = replace(FAILED, error=None), replace(FAILED, error=DeliveryError("failed"))
UNCOUNTED = replace(written(), accepted=ROWS + 1, attempted=ROWS + 1)


def test_correct_run_is_accepted() -> None:
    assert violations(PLAN, [written()], log_of(list(range(ROWS)))) == []


@pytest.mark.parametrize("there", [4, 5, 7])
def test_correctly_reported_failure(there: int) -> None:
    session = written(persisted=4, possibly=3, missing=3)
    assert violations(MAY_FAIL, [session], log_of(list(range(there)))) == []


@pytest.mark.parametrize(
    ("numbers", "sign"),
    [
        (list(range(ROWS - 1)), "LOST"),
        ([*range(ROWS - 1), ROWS - 2], "duplicate rows"),
        ([0, 2, 1, *range(3, ROWS)], "wrong order: 1 is after 2"),
        ([*range(ROWS), ROWS], "never appended"),
        ([*range(5), *range(6, ROWS)], "a gap: row 5"),
    ],
)
def test_each_kind_of_incorrect_log_is_rejected(numbers: list[int], sign: str) -> None:
    assert sign in " ".join(violations(PLAN, [written()], log_of(numbers)))


@pytest.mark.parametrize(
    ("plan", "session", "log", "sign"),
    [
        (MAY_FAIL, FAILED, log_of(list(range(5))), "found 5 rows"),
        (PLAN, written(), log_of(list(range(ROWS)), first=1), "do not contain"),
        (PLAN, FAILED, log_of(list(range(4))), "does not explain DeliveryError"),
        (MAY_FAIL, NO_ERROR, log_of(list(range(4))), "no failure, but only 4 of 10 persisted"),
        (MAY_FAIL, OTHER_ERROR, log_of(list(range(4))), "has 6 not_persisted, the error 0"),
        (PLAN, UNCOUNTED, log_of(list(range(ROWS))), "but the report has 10"),
    ],
)
def test_each_kind_of_incorrect_report_is_rejected(
    plan: Plan, session: SessionResult, log: list[ForeignRecord], sign: str
) -> None:
    assert sign in " ".join(violations(plan, [session], log))


def test_records_of_an_unknown_session() -> None:
    texts = violations(PLAN, [], log_of([1]))
    assert texts == ["records of session 0, which did not exist"]


@pytest.mark.parametrize(("there", "is_lost"), [(0, False), (4, True), (ROWS, False)])
def test_recreated_topic_contains_all_rows_or_none(there: int, is_lost: bool) -> None:
    """Rows of a successful session."""
    plan = replace(MAY_FAIL, cluster_faults=(ClusterFault.RECREATE,))
    texts = violations(plan, [written()], log_of(list(range(there))))
    assert [text for text in texts if "LOST: 6 rows were written to a topic" in text] == texts
    assert bool(texts) == is_lost
