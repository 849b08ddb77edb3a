"""Kafka's error codes, with name, number, group, and whether they are retriable.

`ErrorCode` (from kio) is Kafka's ``Errors`` table with numbers, names and `retriable`. This module
adds client-side codes, codes unknown to kio, and the group of each code that the package handles.
The sets after the table are the only classification of error codes. A module that handles some
codes differently defines this as a difference from one of these sets.

Source: ``org.apache.kafka.common.protocol.Errors`` and its exception classes.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto

from kio.schema import errors

ErrorCode = errors.ErrorCode
_NAMED = {int(code): code for code in ErrorCode}


class ClientErrorCode(IntEnum):
    """Client-side failures of a request. No broker sends these codes."""

    disconnected = -2
    """The connection was lost, or the request timed out, before a response arrived."""
    not_sent = -3
    """The connection was lost before the request was completely written, so it had no effect."""

    @property
    def retriable(self) -> bool:
        """Always True: all of these failures can be retried."""
        return True


MAYBE_APPENDED = frozenset(
    {
        ErrorCode.unknown_server_error,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.kafka_storage_error,
        ClientErrorCode.disconnected,
    }
)
"""The batch might be in the log, although no success was reported. If a leader appends a batch and
steps down before its followers have replicated the batch, the response is 3, 6 or 56
(``DelayedProduce``).
"""
_NAMES: dict[int, str] = {int(code): code.name.upper() for code in (*ErrorCode, *ClientErrorCode)}


class UnknownErrorCode(int):
    """An error code that has no name in kio's protocol version, as an int."""

    @property
    def value(self) -> int:
        """The error code. kio's writer reads this attribute, as it does for ErrorCode."""
        return int(self)


class _Group(Enum):
    CONNECTION = auto()
    TIMEOUT = auto()
    TOPIC = auto()
    TOPIC_ID = auto()
    LEADER = auto()
    LEADER_BUSY = auto()
    READ_BUSY = auto()
    COORDINATOR_MOVED = auto()
    COORDINATOR_BUSY = auto()
    FENCED = auto()
    DENIED = auto()
    TOO_LARGE = auto()
    INVALID_RECORD = auto()
    INVALID_TOPIC = auto()


_GROUPS: dict[int, _Group] = {
    # These codes are retriable.
    ClientErrorCode.disconnected: _Group.CONNECTION,
    ClientErrorCode.not_sent: _Group.CONNECTION,
    ErrorCode.network_exception: _Group.CONNECTION,
    ErrorCode.request_timed_out: _Group.TIMEOUT,
    ErrorCode.unknown_topic_or_partition: _Group.TOPIC,
    ErrorCode.leader_not_available: _Group.TOPIC,
    ErrorCode.not_leader_or_follower: _Group.TOPIC,
    ErrorCode.unknown_topic_id: _Group.TOPIC_ID,
    ErrorCode.inconsistent_topic_id: _Group.TOPIC_ID,
    ErrorCode.replica_not_available: _Group.LEADER,
    ErrorCode.kafka_storage_error: _Group.LEADER,
    ErrorCode.listener_not_found: _Group.LEADER,
    ErrorCode.fenced_leader_epoch: _Group.LEADER,
    ErrorCode.corrupt_message: _Group.LEADER_BUSY,
    ErrorCode.not_enough_replicas: _Group.LEADER_BUSY,
    ErrorCode.not_enough_replicas_after_append: _Group.LEADER_BUSY,
    ErrorCode.offset_not_available: _Group.READ_BUSY,
    ErrorCode.coordinator_not_available: _Group.COORDINATOR_MOVED,
    ErrorCode.not_coordinator: _Group.COORDINATOR_MOVED,
    ErrorCode.coordinator_load_in_progress: _Group.COORDINATOR_BUSY,
    ErrorCode.concurrent_transactions: _Group.COORDINATOR_BUSY,
    # These codes are not retriable.
    ErrorCode.invalid_producer_epoch: _Group.FENCED,
    ErrorCode.producer_fenced: _Group.FENCED,
    ErrorCode.topic_authorization_failed: _Group.DENIED,
    ErrorCode.cluster_authorization_failed: _Group.DENIED,
    ErrorCode.transactional_id_authorization_failed: _Group.DENIED,
    ErrorCode.message_too_large: _Group.TOO_LARGE,
    ErrorCode.record_list_too_large: _Group.TOO_LARGE,
    ErrorCode.invalid_timestamp: _Group.INVALID_RECORD,
    ErrorCode.invalid_record: _Group.INVALID_RECORD,
    ErrorCode.invalid_replication_factor: _Group.INVALID_TOPIC,
    ErrorCode.invalid_config: _Group.INVALID_TOPIC,
    ErrorCode.invalid_topic_exception: _Group.INVALID_TOPIC,
    ErrorCode.policy_violation: _Group.INVALID_TOPIC,
    ErrorCode.invalid_request: _Group.INVALID_TOPIC,
}


def _codes(*groups: _Group) -> frozenset[int]:
    return frozenset(code for code, group in _GROUPS.items() if group in groups)


CONNECTION_LOST = _codes(_Group.CONNECTION)
"""The connection failed before a response arrived."""

INVALID_METADATA = _codes(_Group.CONNECTION, _Group.TOPIC, _Group.TOPIC_ID, _Group.LEADER)
"""The client's metadata is stale. Refresh it and retry. Source: ``InvalidMetadataException``."""

TOPIC_RECREATED = _codes(_Group.TOPIC_ID)
"""The topic id in the request is not the current id, because the topic was recreated."""

TRANSIENT_TOPIC_ERRORS = _codes(_Group.CONNECTION, _Group.TIMEOUT, _Group.TOPIC, _Group.TOPIC_ID)
"""Temporary errors of a topic in Metadata responses, for example while the topic is created."""

RETRIABLE_AT_LEADER = _codes(_Group.TIMEOUT, _Group.LEADER_BUSY)
"""The leader is correct, but could not append or replicate the batch. Retry it there."""

LEADER_BUSY = RETRIABLE_AT_LEADER | _codes(_Group.READ_BUSY) | {ErrorCode.concurrent_transactions}
"""The leader is correct, but cannot process the request now. Retry it there."""

COORDINATOR_MOVED = _codes(_Group.CONNECTION, _Group.COORDINATOR_MOVED)
"""Look up the coordinator, and retry the request there."""

COORDINATOR_BUSY = _codes(_Group.TIMEOUT, _Group.COORDINATOR_BUSY)
"""Retry the request at the same coordinator."""

COORDINATOR_UNAVAILABLE = COORDINATOR_MOVED | COORDINATOR_BUSY
"""The coordinator cannot respond now. A later request might succeed."""

COORDINATOR_ERRORS = _codes(_Group.COORDINATOR_MOVED, _Group.COORDINATOR_BUSY)
"""Codes that originate from a coordinator. A leader also returns them if it could not add a
partition to the transaction (KIP-890); in that case, retry at the leader.
"""


FENCED = _codes(_Group.FENCED)
"""A later InitProducerId of the same transactional id has fenced the producer."""

AUTHORIZATION_FAILED = _codes(_Group.DENIED)
"""The client is authenticated, but not authorized for the request."""

FATAL_TO_PRODUCER = (AUTHORIZATION_FAILED - {ErrorCode.topic_authorization_failed}) | {
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
}
"""The producer id can no longer be used, or this client is not authorized to use it."""

RECORDS_TOO_LARGE = _codes(_Group.TOO_LARGE)
"""The batch exceeds the topic's max.message.bytes or segment.bytes."""

INVALID_RECORDS = RECORDS_TOO_LARGE | _codes(_Group.INVALID_RECORD)
"""Only the records are rejected. The topic and the broker are not affected."""

INVALID_TOPIC_SETTINGS = _codes(_Group.INVALID_TOPIC)
"""The name or the settings of a topic to create are rejected."""


def as_error_code(number: int) -> ErrorCode | UnknownErrorCode:
    """Return the ErrorCode for a number, or an UnknownErrorCode if the number has no name."""
    known = _NAMED.get(number)
    return UnknownErrorCode(number) if known is None else known


def error_name(code: int) -> str:
    """Return the name of an error code in capitals, or UNKNOWN_ERROR_<code> if it has no name."""
    return _NAMES.get(code, f"UNKNOWN_ERROR_{code}")


def is_known(code: int) -> bool:
    """Return True if the code has a name."""
    return code in _NAMES
