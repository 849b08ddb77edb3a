"""Reports of tolerated rejections: dead letters, reports and errors."""

from datetime import UTC, datetime

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tests.support.harness.fake import Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import (
    DEAD,
    RejectingLog,
    cluster,
    letters,
    reason,
    record_errors,
    tolerant,
)


def test_each_dead_letter_contains_the_brokers_message() -> None:
    named = [(3, "late"), (0, "no key"), (2, None)]
    extra = {
        "error_message": "in general",
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": text} for index, text in named
        ],
    }
    with world(cluster(), tolerant()) as sim:
        sim.fault(Fault(error=ErrorCode.invalid_record, extra=extra))
        sim.deliver([b"a", b"b", b"c", b"d"])
        reasons = {record.value: reason(record).rpartition(": ")[2] for record in letters(sim)}
        assert reasons == {b"a": "no key", b"c": "in general", b"d": "late"}


@pytest.mark.parametrize(
    ("code", "example"),
    [
        (
            ErrorCode.message_too_large,
            "row 0 is 69 bytes when serialized, more than the broker accepts",
        ),
        (ErrorCode.invalid_record, "INVALID_RECORD"),
    ],
)
def test_example_explains_itself_without_a_broker_message(code: int, example: str) -> None:
    with world(cluster(), tolerant()) as sim:
        sim.fault(Fault(error=code))
        sim.deliver([b"a"])
        [count] = sim.report().poison
        assert count.examples == (f"t-0: {example}",)


def test_batch_without_its_rejected_records_keeps_its_attempts() -> None:
    rejected = record_errors(0)
    with world(cluster(), tolerant(), retries=1) as sim:
        sim.fault(Fault(error=ErrorCode.not_enough_replicas))
        sim.fault(Fault(error=ErrorCode.invalid_record, extra=rejected))
        sim.fault(Fault(error=ErrorCode.not_enough_replicas))
        sim.send([b"a", b"b"])
        with pytest.raises(DeliveryError, match="NOT_ENOUGH_REPLICAS"):
            sim.finish()


def test_tolerated_errors_are_reported() -> None:
    with world(cluster(), tolerant(), batch_size=16_384) as sim:
        sim.cluster.logs["t", 0] = RejectingLog(87)
        sim.cluster.logs["t", 1].max_batch = 300
        sim.cluster.logs[DEAD, 0].max_batch = 600
        sim.send([b"bad"])
        sim.send([b"x" * 200, b"y" * 150], 1)
        sim.deliver([b"z" * 500], 9)
        errors = dict(sim.report().errors)
        assert errors["INVALID_RECORD"] == 1
        assert errors["MESSAGE_TOO_LARGE"] >= 2
        assert sim.report().retries == 0


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(("ratio", "fails"), [(1.0, True), (0.5, True), (0.51, False)])
def test_task_fails_at_the_maximum_share_of_bad_rows(
    ratio: float, *, fails: bool, keep: bool
) -> None:
    with world(cluster(), tolerant(DEAD if keep else None, max_ratio=ratio)) as sim:
        if ratio < 1:
            sim.send([b"v"] * 1_000)
        if fails:
            with pytest.raises(DeliveryError, match="1,000 PARTITION_OUT_OF_RANGE, first row 0"):
                sim.send([b"v"] * 1_000, 9)
        else:
            sim.send([b"v"] * 1_000, 9)


@pytest.mark.parametrize("repeats", [True, False])
def test_append_time_of_duplicate_batch_is_ignored(sim: World, *, repeats: bool) -> None:
    """The topic uses CreateTime: for a batch already in the log, the broker returns that time."""
    sim.fault(Fault(lose=True) if repeats else Fault(hold=True))
    sim.send([b"a"])
    sim.run(lambda: len(sim.cluster.seen) == 1)
    [data] = sim.cluster.seen[0].batches.values()
    append_time = datetime.fromtimestamp(BatchHeader.parse(data).max_timestamp / 1000, UTC)
    sim.fault(Fault(extra={"log_append_time": append_time}))
    sim.cluster.release()
    if not repeats:
        sim.finish()
        sim.send([b"b"])
    sim.finish()
    [part] = sim.report().partitions
    assert (part.first_append_time is None) == repeats
