"""What follows from the error codes of coordinators and of partitions' leaders.

Source: ``TransactionManager``, ``PartitionLeaderStrategy``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.admin.api_driver import Action
from spark_kafka_sink.protocol.error_codes import INVALID_METADATA, ClientErrorCode, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

COORDINATOR_ACTIONS: Mapping[int, Action] = {
    ClientErrorCode.disconnected: Action.LOOK_UP,
    ClientErrorCode.not_sent: Action.LOOK_UP,
    ErrorCode.coordinator_not_available: Action.LOOK_UP,
    ErrorCode.not_coordinator: Action.LOOK_UP,
    ErrorCode.coordinator_load_in_progress: Action.RETRY,
    ErrorCode.concurrent_transactions: Action.RETRY,
    ErrorCode.request_timed_out: Action.RETRY,
    ErrorCode.network_exception: Action.LOOK_UP,
}
"""What is not final when a coordinator is asked; all else is."""

_BUSY = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.offset_not_available,
        ErrorCode.corrupt_message,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.concurrent_transactions,
    }
)
"""The leader is right, and can't do it now."""


def leader_action(code: int) -> Action:
    """What follows from an error code of a partition's leader."""
    lost = code in {ClientErrorCode.disconnected, ClientErrorCode.not_sent}
    if lost or code in INVALID_METADATA or code == ErrorCode.unknown_leader_epoch:
        return Action.LOOK_UP
    return Action.RETRY if code in _BUSY else Action.DONE
