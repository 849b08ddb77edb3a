"""The fast reader of Produce requests agrees with the codec, or leaves the request to it."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.net.plain_produce import try_read_produce_request
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.message_format import decode, encode, milliseconds
from spark_kafka_sink.kafka.protocol.messages import build
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type
from tests.support.entities import entities

VERSIONS = range(3, 14)
INT32 = st.integers(-(2**31), 2**31 - 1)
PLAIN = st.builds(
    lambda acks, timeout, name, topic_id, index, records: {
        "acks": acks,
        "timeout": milliseconds(timeout),
        "topic_data": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_data": [{"index": index, "records": records}],
            }
        ],
    },
    st.integers(-(2**15), 2**15 - 1),
    INT32,
    st.text(max_size=300),
    st.none() | st.uuids().filter(lambda value: value.int != 0),
    INT32,
    st.binary(max_size=300),
)
QUICK = settings(max_examples=80, deadline=None)


def by_codec(kind: type[Any], data: bytes, at: int) -> Any:
    """Return the codec's result, or None if it rejects the bytes."""
    try:
        return decode(kind, data, at)[0]
    except ProtocolError:
        return None


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_requests_are_read_as_by_the_codec(version: int) -> None:
    kind = request_type(ApiKey.PRODUCE, version)

    @QUICK
    @given(values=PLAIN, before=st.binary(max_size=5))
    def check(values: dict[str, Any], before: bytes) -> None:
        request = build(kind, values)
        data = memoryview(before + encode(request))
        plain = try_read_produce_request(version, data, len(before))
        assert plain == request == decode(kind, data, len(before))[0]
        assert plain.topic_data[0].partition_data[0].records.obj is data.obj

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_other_requests_are_left_to_the_codec_or_read_alike(version: int) -> None:
    kind = request_type(ApiKey.PRODUCE, version)

    @QUICK
    @given(request=entities(kind))
    def check(request: Any) -> None:
        plain = try_read_produce_request(version, memoryview(encode(request)), 0)
        assert plain in (None, request)
        is_plain = request.transactional_id is None and len(request.topic_data) == 1
        partitions: tuple[Any, ...] = request.topic_data[0].partition_data if is_plain else ()
        is_plain = len(partitions) == 1 and partitions[0].records is not None
        assert (plain is not None) == is_plain

    check()


@pytest.mark.parametrize("version", VERSIONS)
def test_invalid_requests_are_left_to_the_codec(version: int) -> None:
    kind = request_type(ApiKey.PRODUCE, version)

    @settings(QUICK, max_examples=200)
    @given(
        values=PLAIN,
        changes=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=3),
        cut=st.integers(0, 8),
        behind=st.binary(max_size=3),
    )
    @example(
        values={"acks": 1, "timeout": milliseconds(0), "topic_data": []},
        changes=[],
        cut=0,
        behind=b"",
    )
    def check(
        values: dict[str, Any], changes: list[tuple[int, int]], cut: int, behind: bytes
    ) -> None:
        changed = bytearray(encode(build(kind, values)))
        for place, byte in changes:
            changed[place % len(changed)] = byte
        data = bytes(changed[: len(changed) - cut]) + behind
        plain = try_read_produce_request(version, memoryview(data), 0)
        assert plain is None or plain == by_codec(kind, data, 0)

    check()


@given(st.sampled_from(VERSIONS), st.binary(max_size=80))
def test_any_bytes_are_read_as_by_the_codec(version: int, data: bytes) -> None:
    plain = try_read_produce_request(version, memoryview(data), 0)
    assert plain is None or plain == by_codec(request_type(ApiKey.PRODUCE, version), data, 0)


def test_tags_are_left_to_the_codec() -> None:
    kind = request_type(ApiKey.PRODUCE, 9)
    topic = {"name": "t", "partition_data": [{"index": 1, "records": b"r"}]}
    request = build(kind, {"acks": 1, "timeout": milliseconds(5), "topic_data": [topic]})
    tagged = encode(request)[:-1] + b"\x01\x07\x02ab"
    assert try_read_produce_request(9, memoryview(tagged), 0) is None
    assert decode(kind, tagged)[0] == request
