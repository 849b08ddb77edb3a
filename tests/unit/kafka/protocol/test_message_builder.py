"""Requests and responses from trees of values, in every version."""

from dataclasses import fields
from datetime import timedelta

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v17 import response as fetch
from kio.schema.metadata.v0 import response as metadata_v0
from kio.schema.metadata.v13 import response as metadata_v13

from spark_kafka_sink.kafka.protocol.codec import decode, encode
from spark_kafka_sink.kafka.protocol.frame import MIN_PART_SIZE, RecordBuffers
from spark_kafka_sink.kafka.protocol.messages import build, read_response, response_parts
from tests.unit.kafka.protocol.entities import MESSAGES

TREE = {
    "brokers": [{"node_id": 1, "host": "h", "port": 9092, "rack": "r"}],
    "controller_id": 1,
    "topics": [
        {"name": "t", "partitions": [{"partition_index": 3, "leader_id": 1, "isr_nodes": [1, 2]}]}
    ],
}


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
    big, small = memoryview(bytearray(b"b" * MIN_PART_SIZE)), b"s"
    partition = {"partition_index": 0, "records": RecordBuffers([small, big, small])}
    response = build(fetch.FetchResponse, {"responses": [{"partitions": [partition]}]})
    parts = response_parts(response, 5)
    assert any(part.obj is big.obj for part in parts if isinstance(part, memoryview))
    frame = b"".join(parts)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    number, decoded = read_response(fetch.FetchResponse, frame[4:])
    assert number == 5
    assert decoded.responses[0].partitions[0].records == small + bytes(big) + small
