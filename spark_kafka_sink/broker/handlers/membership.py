"""What the APIs of group members share: checks of coordinator, member and generation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroupState

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
    from spark_kafka_sink.broker.handlers.request_context import RequestContext

NO_GENERATION = -1


def check_coordinator(context: RequestContext) -> ErrorCode:
    """Check whether the node that was asked coordinates the group."""
    group_id = context.request.group_id
    if not group_id:
        return ErrorCode.invalid_group_id
    here = context.cluster.coordinator(group_id).id == context.node
    return ErrorCode.none if here else ErrorCode.not_coordinator


def check_member(context: RequestContext, group: ClassicGroup, generation: int) -> ErrorCode:
    """Check whether a request's member belongs to the group's generation.

    A static member whose place was taken by a newer one is FENCED_INSTANCE_ID (KIP-345).
    """
    return group.check(
        context.request.member_id, generation, context.get("group_instance_id", None)
    )


def may_commit(
    context: RequestContext, generation: int, *, in_transaction: bool = False
) -> ErrorCode:
    """Check whether offsets may be committed: by a member, or by anyone while there is none.

    As OffsetMetadataManager.validateOffsetCommit: in a transaction, the old versions that name no
    member are not checked, and a rebalance in progress does not reject the commit.
    """
    group = context.cluster.group_coordinator.find(context.request.group_id)
    if group is None:
        return ErrorCode.none if generation < 0 else ErrorCode.illegal_generation
    empty = group.state is ClassicGroupState.EMPTY
    if generation < 0 and empty:
        return ErrorCode.none
    instance_id = context.get("group_instance_id", None)
    if generation >= 0 or context.get("member_id", "") or instance_id is not None:
        error = check_member(context, group, generation)
    else:
        error = ErrorCode.none if in_transaction or empty else ErrorCode.unknown_member_id
    completing = group.state is ClassicGroupState.COMPLETING_REBALANCE
    return error or (
        ErrorCode.rebalance_in_progress if completing and not in_transaction else ErrorCode.none
    )
