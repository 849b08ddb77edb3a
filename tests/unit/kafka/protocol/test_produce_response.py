"""The fast reader and writer of Produce responses agree with the codec and with kio."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.net.plain_produce import try_write_produce_response
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol import produce
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import encode, optional_timestamp
from spark_kafka_sink.kafka.protocol.messages import build, read_response, response_header
from spark_kafka_sink.kafka.protocol.produce import (
    PartitionResponse,
    ProduceResponse,
    from_message,
    produce_response_reader,
)
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type

YEAR_10000 = 253_402_300_800_000
PARTITION = {
    "index": 1,
    "error_code": ErrorCode.none,
    "base_offset": 7,
    "log_append_time": None,
}
INT64 = st.integers(-1, 2**63 - 1)
TIMES = st.none() | st.integers(0, 2**41).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)
PARTITIONS = st.fixed_dictionaries(
    {
        "index": st.integers(0, 2**31 - 1),
        "error_code": st.sampled_from(ErrorCode),
        "base_offset": INT64,
        "log_append_time": TIMES,
        "log_start_offset": INT64,
    }
)
TOPICS = st.fixed_dictionaries(
    {
        "name": st.text(max_size=300),
        "topic_id": st.none() | st.uuids(),
        "partition_responses": st.lists(PARTITIONS, max_size=3),
    }
)
ANSWERS = st.fixed_dictionaries(
    {
        "responses": st.lists(TOPICS, max_size=3),
        "throttle_time": st.integers(0, 2**31 - 1).map(lambda ms: timedelta(milliseconds=ms)),
        "node_endpoints": st.just([]),
    }
)
MORE = [
    {"record_errors": [{"batch_index": 0, "batch_index_error_message": "no"}]},
    {"error_message": "no"},
    {"current_leader": {"leader_id": 3, "leader_epoch": 1}},
]


@pytest.mark.parametrize("version", range(3, 14))
def test_plain_responses_match_kios_bytes(version: int) -> None:
    kind = response_type(ApiKey.PRODUCE, version)

    @settings(deadline=None, max_examples=60)
    @given(answer=ANSWERS)
    def check(answer: dict[str, Any]) -> None:
        assert try_write_produce_response(version, answer) == encode(build(kind, answer))

    check()


def test_two_hundred_partitions_need_a_longer_count() -> None:
    topic = {"name": "t", "topic_id": UUID(int=5), "partition_responses": [PARTITION] * 200}
    for version in (3, 9, 13):
        expected = encode(build(response_type(ApiKey.PRODUCE, version), {"responses": [topic]}))
        assert try_write_produce_response(version, {"responses": [topic]}) == expected


@pytest.mark.parametrize("version", range(3, 14))
def test_plain_responses_are_read_as_by_the_codec(version: int) -> None:
    kind = response_type(ApiKey.PRODUCE, version)

    @settings(deadline=None, max_examples=60)
    @given(answer=ANSWERS)
    def check(answer: dict[str, Any]) -> None:
        frame = frame_of(kind, answer)
        expected = from_message(read_response(kind, frame)[1])
        assert produce_response_reader(version)(frame) == expected

    check()


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("time_ms", [None, 0, 1_700_000_000_000])
def test_plain_responses_do_not_use_the_codec(
    version: int, time_ms: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = None if time_ms is None else datetime.fromtimestamp(time_ms / 1000, UTC)
    partition = PARTITION | {"log_append_time": time}
    topic = {"name": "t", "topic_id": UUID(int=5), "partition_responses": [partition]}
    frame = frame_of(response_type(ApiKey.PRODUCE, version), {"responses": [topic]})
    monkeypatch.delattr(produce, "read_response")
    key = UUID(int=5) if version >= 13 else "t"
    expected = PartitionResponse(code=0, base_offset=7, append_time=time_ms)
    assert produce_response_reader(version)(frame) == ProduceResponse({(key, 1): expected})


@pytest.mark.parametrize("more", MORE)
def test_responses_with_more_fields_are_read_completely(more: dict[str, Any]) -> None:
    topic = {"name": "t", "partition_responses": [PARTITION | more, PARTITION | {"index": 2}]}
    endpoint = {"node_id": 4, "host": "h", "port": 9}
    kind = response_type(ApiKey.PRODUCE, 10)
    frame = frame_of(kind, {"responses": [topic], "node_endpoints": [endpoint]})
    response = produce_response_reader(10)(frame)
    answer = response.partitions["t", 1]
    said = (answer.message, answer.leader, answer.leader_epoch, answer.record_errors)
    assert said != (None, -1, -1, ())
    leader = (3, 1) if "current_leader" in more else (-1, -1)
    errors = ((0, "no"),) if "record_errors" in more else ()
    assert said == (more.get("error_message"), *leader, errors)
    assert response.partitions["t", 2].base_offset == 7
    assert response.nodes == ((4, "h", 9),)


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_truncated_response_is_a_protocol_error(version: int) -> None:
    topic = {"name": "t", "topic_id": UUID(int=5), "partition_responses": [PARTITION]}
    frame = frame_of(response_type(ApiKey.PRODUCE, version), {"responses": [topic]})
    read = produce_response_reader(version)
    assert isinstance(read(frame), ProduceResponse)
    for size in range(len(frame)):
        with pytest.raises(ProtocolError):
            read(frame[:size])


def frame_of(kind: Any, answer: dict[str, Any]) -> memoryview:
    """Return a response as it arrives, without its size."""
    return memoryview(response_header(kind, 77) + encode(build(kind, answer)))


@pytest.mark.parametrize("more", MORE)
def test_responses_with_more_fields_are_left_to_the_schema(more: dict[str, Any]) -> None:
    topic = {"name": "t", "topic_id": None, "partition_responses": [PARTITION | more]}
    assert try_write_produce_response(10, {"responses": [topic]}) is None
    plain = {**topic, "partition_responses": [PARTITION]}
    endpoint = {"node_id": 1, "host": "h", "port": 1}
    answer = {"responses": [plain], "node_endpoints": [endpoint]}
    assert try_write_produce_response(10, answer) is None
    assert try_write_produce_response(10, {"responses": [plain]}) is not None


def outcome(read: Callable[[memoryview], ProduceResponse], frame: bytes) -> object:
    """Return the parsed response, or that the frame is invalid."""
    try:
        return read(memoryview(frame))
    except ProtocolError:
        return ProtocolError


@pytest.mark.parametrize("version", [3, 5, 8, 9, 13])
def test_modified_responses_are_read_as_by_the_codec(version: int) -> None:
    """Every byte of a response is replaced, so that each length, tag and timestamp is wrong."""
    time = datetime.fromtimestamp(1_700_000_000, UTC)
    partition = PARTITION | {"log_append_time": time}
    topics = [
        {"name": name, "topic_id": UUID(int=5 + number), "partition_responses": [partition]}
        for number, name in enumerate(("t", "u"))
    ]
    kind = response_type(ApiKey.PRODUCE, version)
    frame = bytes(frame_of(kind, {"responses": topics}))
    broken = 0
    for at in range(4, len(frame)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF):
            other = frame[:at] + bytes([value]) + frame[at + 1 :]
            expected = outcome(lambda view: from_message(read_response(kind, view)[1]), other)
            assert outcome(produce_response_reader(version), other) == expected, (at, value)
            broken += expected is ProtocolError
    assert broken


@pytest.mark.parametrize("version", range(3, 14))
def test_every_timestamp_is_read_and_written(version: int) -> None:
    """For a duplicate batch, Kafka returns the producer's own timestamp, which can be any int64."""
    kind = response_type(ApiKey.PRODUCE, version)
    for time_ms in (-(2**63), -62_135_596_800_001, -2, 0, YEAR_10000 - 1, YEAR_10000, 2**63 - 1):
        partition = PARTITION | {"log_append_time": optional_timestamp(time_ms)}
        topics = [{"name": "t", "topic_id": UUID(int=5), "partition_responses": [partition]}]
        frame = frame_of(kind, {"responses": topics})
        response = produce_response_reader(version)(frame)
        assert [
            partition_response.append_time for partition_response in response.partitions.values()
        ] == [time_ms]
        assert from_message(read_response(kind, frame)[1]) == response
        plain = try_write_produce_response(version, {"responses": topics})
        assert plain is not None
        assert bytes(frame).endswith(plain)
