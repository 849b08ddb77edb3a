"""OffsetFetch 1-9: where a group goes on; several groups at once since version 8 (KIP-709)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.broker.group_offsets import CommittedOffset
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.groups import Group
    from spark_kafka_sink.protocol.build import Values

GROUPS_VERSION = 8


def handle(call: Call) -> Answer:
    """See the module."""
    if call.version >= GROUPS_VERSION:
        return {"groups": [_group(call, item) for item in call.request.groups]}
    return _group(call, call.request)


def _group(call: Call, item: Any) -> Values:
    if call.cluster.coordinator(item.group_id).id != call.node:
        return {"group_id": item.group_id, "error_code": ErrorCode.not_coordinator}
    group = call.cluster.groups.find(item.group_id)
    return {
        "group_id": item.group_id,
        "topics": [
            {"name": name, "partitions": [_offset(group, name, index) for index in indexes]}
            for name, indexes in _asked(group, item.topics)
        ],
    }


def _asked(group: Group | None, topics: Any) -> list[tuple[str, list[int]]]:
    if topics is not None:
        return [(item.name, list(item.partition_indexes)) for item in topics]
    committed: dict[str, list[int]] = {}
    for name, index in group.offsets if group else ():
        committed.setdefault(name, []).append(index)
    return list(committed.items())


def _offset(group: Group | None, name: str, index: int) -> Values:
    committed = group.offsets.get((name, index)) if group else None
    found = committed or CommittedOffset()
    return {
        "partition_index": index,
        "committed_offset": found.offset,
        "committed_leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
    }


HANDLER = Handler(api=ApiKey.OFFSET_FETCH, versions=VersionRange(1, 9), handle=handle)
