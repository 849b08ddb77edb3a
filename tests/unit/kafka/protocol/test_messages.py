"""Headers and bodies of requests and responses."""

import ast
from dataclasses import fields, is_dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import kio.schema
import pytest
from kio.schema.fetch.v17 import response as fetch
from kio.schema.heartbeat.v3 import HeartbeatResponse as HeartbeatResponseV3
from kio.schema.heartbeat.v4 import HeartbeatRequest, HeartbeatResponse
from kio.schema.metadata.v0 import response as metadata_v0
from kio.schema.metadata.v13 import response as metadata_v13

import spark_kafka_sink
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import decode, encode
from spark_kafka_sink.kafka.protocol.messages import (
    build,
    read_correlation_id,
    read_request_header,
    read_response,
    response_buffers,
)
from spark_kafka_sink.kafka.protocol.send_buffers import MIN_BUFFER_SIZE, RecordBuffers
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.entities import MESSAGES, entity_of
from tools.support.frames import request_frame, response_frame

PACKAGE = Path(spark_kafka_sink.__file__).parent
ZERO = timedelta(0)
HEALTHY = entity_of(HeartbeatResponse, throttle_time=ZERO, error_code=ErrorCode.none)
HEARTBEAT = entity_of(
    HeartbeatRequest, group_id="g", generation_id=3, member_id="m", group_instance_id=None
)
TREE = {
    "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": "r"}],
    "controller_id": 1,
    "topics": [
        {"name": "t", "partitions": [{"partition_index": 3, "leader_id": 1, "isr_nodes": [1, 2]}]}
    ],
}


@pytest.mark.parametrize("client_id", ["spark-1", "", "ü", None])
def test_request_round_trip(client_id: str | None) -> None:
    frame = request_frame(HEARTBEAT, 77, client_id)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = read_request_header(frame[4:])
    assert (header.api_key, header.version) == (ApiKey.HEARTBEAT, 4)
    assert (header.correlation_id, header.client_id) == (77, client_id)
    assert decode(HeartbeatRequest, frame[4:], header.body_offset) == (HEARTBEAT, len(frame) - 4)


@pytest.mark.parametrize("type_", [HeartbeatResponse, HeartbeatResponseV3])
def test_response_round_trip(type_: type[HeartbeatResponse | HeartbeatResponseV3]) -> None:
    payload = entity_of(type_, throttle_time=ZERO, error_code=ErrorCode.rebalance_in_progress)
    frame = response_frame(payload, 9)
    assert read_correlation_id(frame[4:]) == 9
    assert read_response(type_, frame[4:]) == (9, payload)
    assert read_response(type_, frame[4:] + b"more") == (9, payload)


def test_header_tags_are_skipped() -> None:
    frame = response_frame(HEALTHY, 9)[4:]
    tagged = frame[:4] + b"\x01\x05\x02hi" + frame[5:]
    assert read_response(HeartbeatResponse, tagged)[0] == 9


@pytest.mark.parametrize("size", range(15))
def test_truncated_request_header(size: int) -> None:
    frame = request_frame(HEARTBEAT, 77, "spark")[4:]
    with pytest.raises(ProtocolError):
        read_request_header(frame[:size])


@pytest.mark.parametrize("size", range(6))
def test_truncated_response_is_a_protocol_error(size: int) -> None:
    frame = response_frame(HEALTHY, 9)[4:]
    with pytest.raises(ProtocolError):
        read_response(HeartbeatResponse, frame[:size])


@pytest.mark.parametrize("start", [b"\x7f\x00\x00\x00", b"\x00\x00\x00\x63", b"\xff\xff\x00\x00"])
def test_unknown_api_is_a_protocol_error(start: bytes) -> None:
    with pytest.raises(ProtocolError, match="request version"):
        read_request_header(start + bytes(8))


def test_one_tree_builds_every_version() -> None:
    old = build(metadata_v0.MetadataResponse, TREE)
    new = build(metadata_v13.MetadataResponse, TREE)
    for response in (old, new):
        assert decode(type(response), encode(response))[0] == response
        assert response.brokers[0].host == "h"
        assert response.topics[0].partitions[0].isr_nodes == (1, 2)
        assert response.topics[0].error_code is ErrorCode.none
    assert "rack" not in {field.name for field in fields(old.brokers[0])}
    assert (new.brokers[0].rack, new.controller_id, new.throttle_time) == ("r", 1, timedelta(0))
    assert new.topics[0].topic_id is None


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_message_can_be_built_from_defaults_and_written(name: str) -> None:
    for entity_type in MESSAGES[name]:
        empty = build(entity_type, {})
        assert decode(entity_type, encode(empty))[0] == empty


def test_records_in_pieces_are_sent_without_a_copy() -> None:
    big, small = memoryview(bytearray(b"b" * MIN_BUFFER_SIZE)), b"s"
    partition = {"partition_index": 0, "records": RecordBuffers([small, big, small])}
    response = build(fetch.FetchResponse, {"responses": [{"partitions": [partition]}]})
    parts = response_buffers(response, 5)
    assert any(part.obj is big.obj for part in parts if isinstance(part, memoryview))
    frame = b"".join(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    number, decoded = read_response(fetch.FetchResponse, frame[4:])
    assert number == 5
    assert decoded.responses[0].partitions[0].records == small + bytes(big) + small


def keys_of_values(path: Path) -> set[str]:
    """Return the keys of all dicts in the methods that build a request's values."""
    methods = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name == "values"
    ]
    dicts = [node for method in methods for node in ast.walk(method) if isinstance(node, ast.Dict)]
    keys = [key for node in dicts for key in node.keys if isinstance(key, ast.Constant)]
    return {str(key.value) for key in keys}


def test_values_of_requests_are_fields() -> None:
    """`build` ignores other values, because old versions lack some fields."""
    requests = [
        import_module(module.name)
        for module in walk_packages(kio.schema.__path__, "kio.schema.")
        if module.name.endswith(".request")
    ]
    types = [type_ for module in requests for type_ in vars(module).values()]
    names = {field.name for type_ in types if is_dataclass(type_) for field in fields(type_)}
    keys = {path: keys_of_values(path) for path in PACKAGE.rglob("*.py")}
    assert sum(map(bool, keys.values())) > 3
    assert not {path.name: unknown for path, known in keys.items() if (unknown := known - names)}
