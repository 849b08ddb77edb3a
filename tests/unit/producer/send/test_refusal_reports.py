"""What is said of refusals that the task outlives: in dead letters, reports and errors."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.records.record_batch import BatchHeader
from tests.support.harness.fake import Fault
from tests.support.harness.world import world
from tests.unit.producer.test_tolerance import DEAD, Picky, cluster, letters, reason, tolerant


def test_each_letter_says_what_the_broker_said_of_its_record() -> None:
    named = [(3, "late"), (0, "no key"), (2, None)]
    extra = {
        "error_message": "in general",
        "record_errors": [
            {"batch_index": index, "batch_index_error_message": text} for index, text in named
        ],
    }
    with world(cluster(), tolerant()) as one:
        one.fault(Fault(error=ErrorCode.invalid_record, extra=extra))
        one.send([b"a", b"b", b"c", b"d"])
        one.finish()
        told = {record.value: reason(record).rpartition(": ")[2] for record in letters(one)}
        assert told == {b"a": "no key", b"c": "in general", b"d": "late"}


@pytest.mark.parametrize(
    ("code", "example"),
    [
        (10, "row 0 is 69 bytes when serialized, more than the broker accepts"),
        (87, "INVALID_RECORD"),
    ],
)
def test_an_example_of_a_broker_that_says_nothing_explains_itself(code: int, example: str) -> None:
    with world(cluster(), tolerant()) as one:
        one.fault(Fault(error=code))
        one.send([b"a"])
        one.finish()
        [count] = one.report().poison
        assert count.examples == (f"t-0: {example}",)


def test_errors_that_the_task_outlives_are_reported() -> None:
    with world(cluster(), tolerant(), batch_size=16_384) as one:
        one.cluster.logs["t", 0] = Picky(87)
        one.cluster.logs["t", 1].max_batch = 300
        one.cluster.logs[DEAD, 0].max_batch = 600
        one.send([b"bad"])
        one.send([b"x" * 200, b"y" * 150], 1)
        one.send([b"z" * 500], 9)
        one.finish()
        errors = dict(one.report().errors)
        assert errors["INVALID_RECORD"] == 1
        assert errors["MESSAGE_TOO_LARGE"] >= 2
        assert one.report().retries == 0


@pytest.mark.parametrize("keep", [True, False])
def test_too_many_bad_rows_are_named_by_the_error(*, keep: bool) -> None:
    with world(cluster(), tolerant(letters=keep)) as one:
        with pytest.raises(DeliveryError, match=r"maxRatio") as caught:
            one.send([b"v"] * 2_000, 9)
        assert "2,000 PARTITION_OUT_OF_RANGE, first row 0" in str(caught.value)


@pytest.mark.parametrize("repeats", [True, False])
def test_the_time_of_a_batch_that_the_broker_had_already_is_no_append_time(
    *, repeats: bool
) -> None:
    """The topic keeps CreateTime: a broker that finds the batch in its log answers with that."""
    with world() as one:
        one.fault(Fault(lose=True) if repeats else Fault(hold=True))
        one.send([b"a"])
        one.run(lambda: len(one.cluster.seen) == 1)
        [data] = one.cluster.seen[0].batches.values()
        told = datetime.fromtimestamp(BatchHeader.parse(data).max_timestamp / 1000, UTC)
        one.fault(Fault(extra={"log_append_time": told}))
        one.cluster.release()
        if not repeats:
            one.finish()
            one.send([b"b"])
        one.finish()
        [part] = one.report().partitions
        assert (part.first_append_time is None) == repeats
