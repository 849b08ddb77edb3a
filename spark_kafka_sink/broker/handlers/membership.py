"""What the APIs of group members share: who may speak, and for which generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.broker.call import Call
    from spark_kafka_sink.broker.groups import Group

NO_GENERATION = -1


def coordinated(call: Call) -> ErrorCode:
    """Judge whether the node that was asked looks after the group."""
    group_id = call.request.group_id
    if not group_id:
        return ErrorCode.invalid_group_id
    here = call.cluster.coordinator(group_id).id == call.node
    return ErrorCode.none if here else ErrorCode.not_coordinator


def speaks(call: Call, group: Group, generation: int) -> ErrorCode:
    """Judge whether a request's member belongs to the group's generation.

    A static member whose place was taken by a newer one is FENCED_INSTANCE_ID (KIP-345).
    """
    member_id = call.request.member_id
    instance = group.instance(call.get("group_instance_id", None))
    if instance is not None and instance.id != member_id:
        return ErrorCode.fenced_instance_id
    return group.check(member_id, generation)
