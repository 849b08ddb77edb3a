"""The codec reads what kio writes, and parses any bytes or raises ProtocolError."""

import struct
import sys
import time
import tracemalloc
import uuid
from datetime import timedelta
from io import BytesIO
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kio.schema.fetch.v17 import response as fetch
from kio.schema.metadata.v12 import response as metadata
from kio.schema.produce.v9 import response as produce
from kio.schema.produce.v13 import request as produce_request
from kio.serial import entity_writer

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, UnknownErrorCode
from spark_kafka_sink.kafka.protocol.message_format import decode, encode, milliseconds, timestamp
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type
from tests.support.entities import MESSAGES, entities, entity_of

TYPES = sorted(
    (t for types in MESSAGES.values() for t in types), key=lambda t: (t.__module__, t.__name__)
)
HOSTILE = settings(
    max_examples=400, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)

LONGEST = timedelta.max // timedelta(milliseconds=1)
SHORTEST = timedelta.min // timedelta(milliseconds=1)

QUICK = settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
MAX_ALLOCATED = 1 << 20
"""Maximum bytes that reading 12 short damaged messages allocates."""
CALLS_OF_A_PARTITION = 50
"""Maximum number of Python and C function calls per partition; calls dominate the time of reading.
"""


def parse(entity_type: type[Any], data: bytes) -> int | None:
    """Parse, or raise ProtocolError; any other error fails the test."""
    try:
        _, end = decode(entity_type, data)
    except ProtocolError:
        return None
    assert 0 <= end <= len(data)
    return end


@HOSTILE
@given(entity_type=st.sampled_from(TYPES), data=st.binary(max_size=200))
def test_random_bytes_are_parsed_or_rejected(entity_type: type[Any], data: bytes) -> None:
    parse(entity_type, data)


@HOSTILE
@given(data=st.data())
def test_mutated_messages_are_parsed_or_rejected(data: st.DataObject) -> None:
    entity_type = data.draw(st.sampled_from(TYPES))
    encoded = bytearray(encode(data.draw(entities(entity_type))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(encoded)))
        encoded[at : at + data.draw(st.integers(0, 4))] = data.draw(
            st.binary(max_size=6) | st.sampled_from([b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff"])
        )
    parse(entity_type, bytes(encoded))


@settings(HOSTILE, max_examples=60)
@given(data=st.data())
def test_truncated_at_every_byte(data: st.DataObject) -> None:
    entity_type = data.draw(st.sampled_from(TYPES))
    encoded = encode(data.draw(entities(entity_type)))
    for size in range(len(encoded)):
        with pytest.raises(ProtocolError):
            decode(entity_type, encoded[:size])


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x7f\xff\xff\xff"])
def test_huge_lengths_cost_neither_memory_nor_time(length: bytes) -> None:
    started = time.process_time()
    for entity_type in TYPES:
        parse(entity_type, length)  # imports and caches of the type
        tracemalloc.start()
        for lead in range(12):
            parse(entity_type, bytes(lead) + length * 3 + bytes(40))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MAX_ALLOCATED, entity_type
    assert time.process_time() - started < 10


def partition(**changes: Any) -> produce.PartitionProduceResponse:
    fields: dict[str, Any] = {
        "index": 7,
        "error_code": ErrorCode.none,
        "base_offset": 11,
        "record_errors": (),
    }
    return produce.PartitionProduceResponse(**(fields | changes))


def test_unknown_tags_are_skipped() -> None:
    encoded = encode(partition())
    assert encoded[-1] == 0
    tagged = encoded[:-1] + b"\x02" + b"\x00\x03abc" + b"\xff\x01\x00"
    assert decode(produce.PartitionProduceResponse, tagged) == (partition(), len(tagged))


@pytest.mark.parametrize(
    "tags", [b"\x01", b"\x01\x00", b"\x01\x00\x09abc", b"\xff\xff\xff\xff\x0f"]
)
def test_invalid_tags_are_rejected(tags: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode(produce.PartitionProduceResponse, encode(partition())[:-1] + tags)


def test_known_tag_must_have_its_declared_length() -> None:
    type_ = fetch.PartitionData
    plain = encode(
        entity_of(
            type_,
            partition_index=0,
            error_code=ErrorCode.none,
            high_watermark=0,
            aborted_transactions=None,
            records=None,
        )
    )
    leader = b"\x00\x00\x00\x01\x00\x00\x00\x02\x00"
    good, _ = decode(type_, plain[:-1] + b"\x01\x01\x09" + leader)
    assert (good.current_leader.leader_id, good.current_leader.leader_epoch) == (1, 2)
    with pytest.raises(ProtocolError, match="9 bytes instead of 10"):
        decode(type_, plain[:-1] + b"\x01\x01\x0a" + leader + b"\x00")


def test_unknown_error_codes_stay_numbers_and_can_be_written() -> None:
    strange = partition(error_code=UnknownErrorCode(3333))
    decoded, _ = decode(produce.PartitionProduceResponse, encode(strange))
    assert decoded.error_code == 3333
    assert not isinstance(decoded.error_code, ErrorCode)
    assert encode(decoded) == encode(strange)  # type: ignore[unreachable]


def test_null_in_a_non_nullable_field() -> None:
    with pytest.raises(ProtocolError, match="array is null"):
        decode(produce.ProduceResponse, b"\x00" * 6)


@pytest.mark.parametrize("text", [b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80"])
def test_strings_must_be_utf8(text: bytes) -> None:
    encoded = encode(
        entity_of(metadata.MetadataResponseBroker, node_id=1, host="hi", port=1, rack=None)
    )
    broken = encoded.replace(bytes([3]) + b"hi", bytes([len(text) + 1]) + text)
    with pytest.raises(ProtocolError):
        decode(metadata.MetadataResponseBroker, broken)


@pytest.mark.parametrize("time_ms", [-(2**63), -2, 2**62, 253402300800000])
def test_timestamps_beyond_datetime(time_ms: int) -> None:
    encoded = encode(partition(log_append_time=None))
    other = encoded.replace(b"\xff" * 8, struct.pack(">q", time_ms), 1)
    assert other != encoded
    response, _ = decode(produce.PartitionProduceResponse, other)
    assert response.log_append_time == timestamp(time_ms)
    assert encode(response) == other


def test_records_are_a_view_of_the_frame() -> None:
    request = entity_of(produce_request.PartitionProduceData, index=0, records=b"r" * 100)
    frame = bytearray(encode(request))
    decoded, _ = decode(produce_request.PartitionProduceData, memoryview(frame))
    assert decoded.records == b"r" * 100
    frame[10] = ord("s")
    assert bytes(decoded.records) != b"r" * 100


def test_calls_grow_only_with_the_number_of_partitions() -> None:
    few, many = (work(metadata.MetadataResponse, encoded(count)) for count in (100, 1_000))
    assert many - few <= 900 * CALLS_OF_A_PARTITION


def encoded(count: int) -> bytes:
    partitions = tuple(
        entity_of(
            metadata.MetadataResponsePartition,
            error_code=ErrorCode.none,
            partition_index=i,
            leader_id=1,
            leader_epoch=0,
            replica_nodes=(1, 2, 3),
            isr_nodes=(1, 2, 3),
            offline_replicas=(),
        )
        for i in range(count)
    )
    topic = entity_of(
        metadata.MetadataResponseTopic,
        error_code=ErrorCode.none,
        name="t",
        topic_id=uuid.uuid4(),
        partitions=partitions,
    )
    response = entity_of(
        metadata.MetadataResponse,
        throttle_time=timedelta(0),
        brokers=(),
        cluster_id=None,
        topics=(topic,),
    )
    data = encode(response)
    assert decode(metadata.MetadataResponse, data)[0] == response
    return data


def work(entity_type: type[Any], data: bytes) -> int:
    """Count the calls of reading, independent of the machine's speed."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        decode(entity_type, data)
    finally:
        sys.setprofile(before)
    return calls


@settings(deadline=None, database=None)
@given(value=st.integers(-(2**63), 2**63 - 1))
@example(value=2**63 - 1)
@example(value=-(2**63))
@example(value=LONGEST + 1)
@example(value=SHORTEST - 1)
def test_every_number_is_a_duration_and_those_that_fit_are_exact(value: int) -> None:
    nearest = max(SHORTEST, min(value, LONGEST))
    assert milliseconds(value) == timedelta(milliseconds=nearest)


@settings(deadline=None, database=None)
@given(lifetime_ms=st.integers(-(2**63), 2**63 - 1))
@example(lifetime_ms=2**63 - 1)
def test_session_lifetime_may_have_any_value(lifetime_ms: int) -> None:
    """A broker's connections.max.reauth.ms may be Long.MAX_VALUE."""
    kind = response_type(ApiKey.SASL_AUTHENTICATE, 1)
    # No error, no message, no bytes; then the lifetime.
    data = bytes(2) + b"\xff\xff" + bytes(4) + lifetime_ms.to_bytes(8, "big", signed=True)
    answer, end = decode(kind, data)
    assert (answer.session_lifetime, end) == (milliseconds(lifetime_ms), len(data))


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_reads_what_kio_writes(name: str) -> None:
    for entity_type in MESSAGES[name]:
        check(entity_type)


def check(entity_type: type[Any]) -> None:
    @QUICK
    @given(entity=entities(entity_type), before=st.binary(max_size=3))
    def run(entity: Any, before: bytes) -> None:
        buffer = BytesIO()
        entity_writer(entity_type)(buffer, entity)
        data = before + buffer.getvalue() + b"\xff behind"
        assert decode(entity_type, data, len(before)) == (entity, len(data) - len(b"\xff behind"))
        assert encode(entity) == buffer.getvalue()

    run()


def test_every_api_version_is_covered() -> None:
    versions = {t.__version__ for t in MESSAGES["produce"]}
    assert versions == set(range(3, 14))
    assert sum(map(len, MESSAGES.values())) >= 600
