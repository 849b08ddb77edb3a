"""The texts, fields and pickling of errors."""

import pickle

import pytest

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.delivery_status import MAX_LINES, DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.errors import ConfigError, DeliveryError, KafkaProdError

SUBCLASSES = [
    errors.ConfigError,
    errors.ColumnError,
    errors.RecordTooLargeError,
    errors.ProtocolError,
    errors.BrokerUnavailableError,
    errors.UnknownTopicError,
    errors.BufferTimeoutError,
    errors.ReportError,
    errors.DeliveryError,
]


def lost(partition: int, records: int = 1) -> PartitionStatus:
    return PartitionStatus(
        topic="flights",
        partition=partition,
        records=records,
        status=DeliveryStatus.NOT_PERSISTED,
        error="REQUEST_TIMED_OUT",
    )


def test_str_contains_every_set_field() -> None:
    error = KafkaProdError(
        "it failed", topic="t", partition=0, broker="b:9092", kafka_error="NOPE", hint="Try again."
    )
    assert str(error) == "it failed [topic=t, partition=0, broker=b:9092, error=NOPE]. Try again."


def test_str_is_only_the_message_without_fields() -> None:
    assert str(KafkaProdError("it failed")) == "it failed"


@pytest.mark.parametrize("cls", SUBCLASSES)
def test_every_error_is_a_kafkaprod_error_and_can_be_pickled(cls: type[KafkaProdError]) -> None:
    error = cls("it failed", topic="t", partition=3, broker="b:1", kafka_error="E", hint="Look.")
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, KafkaProdError)
    assert type(copy) is cls
    assert str(copy) == str(error)
    assert (copy.topic, copy.partition, copy.broker) == ("t", 3, "b:1")
    assert (copy.kafka_error, copy.hint, copy.args) == ("E", "Look.", ("it failed",))


def test_misspelled_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="topik"):
        ConfigError("x", topik="t")  # type: ignore[call-arg]


def test_delivery_error_lists_record_outcomes() -> None:
    maybe = PartitionStatus(
        topic="flights", partition=2, records=300, status=DeliveryStatus.POSSIBLY_PERSISTED
    )
    error = DeliveryError("the broker went away", statuses=(maybe, lost(1, 1200)), hint="Look.")
    assert str(error) == (
        "the broker went away. Look.\n"
        "Records: possibly persisted 300, not persisted 1,200\n"
        "  flights-1: not persisted 1,200 (REQUEST_TIMED_OUT)\n"
        "  flights-2: possibly persisted 300"
    )


def test_records_without_a_partition_are_listed_by_topic() -> None:
    assert str(lost(-1, 20)) == "flights: not persisted 20 (REQUEST_TIMED_OUT)"


def test_delivery_error_keeps_its_statuses_when_pickled() -> None:
    error = DeliveryError("gone", statuses=(lost(1), lost(2)), broker="b:1")
    copy = pickle.loads(pickle.dumps(error))
    assert copy.statuses == error.statuses
    assert str(copy) == str(error)


def test_delivery_error_is_short_for_many_partitions() -> None:
    text = str(
        DeliveryError("gone", statuses=tuple(lost(partition) for partition in range(10_000)))
    )
    assert len(text.splitlines()) == MAX_LINES + 3
    assert "not persisted 10,000" in text
    assert f"and {10_000 - MAX_LINES:,} more partitions" in text
