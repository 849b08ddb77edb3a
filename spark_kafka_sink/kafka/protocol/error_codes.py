"""Kafka's error codes, with their names and numbers, and sets of codes.

`ErrorCode` (from kio) is Kafka's ``Errors`` table with numbers, names and `retriable`. This module
adds client-side codes, codes unknown to kio, and sets of codes that are handled the same way. These
sets are the only classification of error codes. A module that handles some codes differently
defines this as a difference from one of them.

Source: ``org.apache.kafka.common.protocol.Errors`` and its exception classes.
"""

from __future__ import annotations

from enum import IntEnum

from kio.schema.errors import ErrorCode as ErrorCode  # noqa: PLC0414, TID251

_NAMED = {int(code): code for code in ErrorCode}

TOPIC_RECREATED: frozenset[int] = frozenset(
    {ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id}
)
"""The topic id in the request is not the current id, because the topic was recreated."""

_LEADER_UNKNOWN: frozenset[int] = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
    }
)
"""The topic or its leader is unknown, for example while the topic is created."""

RETRIABLE_AT_LEADER: frozenset[int] = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.corrupt_message,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
    }
)
"""The leader is correct, but could not append or replicate the batch. Retry it there."""

LEADER_BUSY = RETRIABLE_AT_LEADER | {
    ErrorCode.offset_not_available,
    ErrorCode.concurrent_transactions,
}
"""The leader is correct, but cannot process the request now. Retry it there."""

COORDINATOR_BUSY: frozenset[int] = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.concurrent_transactions,
    }
)
"""Retry the request at the same coordinator."""

FENCED: frozenset[int] = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.producer_fenced})
"""A later InitProducerId of the same transactional id has fenced the producer."""

TRANSACTION_ENDED = FENCED | {
    ErrorCode.none,
    ErrorCode.invalid_txn_state,
    ErrorCode.invalid_producer_id_mapping,
}
"""EndTxn has ended the transaction, or it was ended before. After `COORDINATOR_UNAVAILABLE`, this
is unknown; after all other codes, EndTxn has not ended it.
"""

AUTHORIZATION_FAILED: frozenset[int] = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
"""The client is authenticated, but not authorized for the request."""

FATAL_TO_PRODUCER = (AUTHORIZATION_FAILED - {ErrorCode.topic_authorization_failed}) | {
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
}
"""The producer id can no longer be used, or this client is not authorized to use it."""

RECORDS_TOO_LARGE: frozenset[int] = frozenset(
    {ErrorCode.message_too_large, ErrorCode.record_list_too_large}
)
"""The batch exceeds the topic's max.message.bytes or segment.bytes."""

INVALID_RECORDS = RECORDS_TOO_LARGE | {ErrorCode.invalid_timestamp, ErrorCode.invalid_record}
"""Only the records are rejected. The topic and the broker are not affected."""

INVALID_TOPIC_SETTINGS: frozenset[int] = frozenset(
    {
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_config,
        ErrorCode.invalid_topic_exception,
        ErrorCode.policy_violation,
        ErrorCode.invalid_request,
    }
)
"""The name or the settings of a topic to create are rejected."""


class ClientErrorCode(IntEnum):
    """Client-side failures of a request. No broker sends these codes."""

    disconnected = -2
    """The connection was lost, or the request timed out, before a response arrived."""
    not_sent = -3
    """The connection was lost before the request was completely written, so it had no effect."""


CONNECTION_LOST: frozenset[int] = frozenset(
    {ClientErrorCode.disconnected, ClientErrorCode.not_sent, ErrorCode.network_exception}
)
"""The connection failed before a response arrived."""

INVALID_METADATA = (CONNECTION_LOST | TOPIC_RECREATED | _LEADER_UNKNOWN) | {
    ErrorCode.replica_not_available,
    ErrorCode.kafka_storage_error,
    ErrorCode.listener_not_found,
    ErrorCode.fenced_leader_epoch,
}
"""The client's metadata is stale. Refresh it and retry. Source: ``InvalidMetadataException``."""

TRANSIENT_TOPIC_ERRORS = (CONNECTION_LOST | TOPIC_RECREATED | _LEADER_UNKNOWN) | {
    ErrorCode.request_timed_out
}
"""Temporary errors of a topic in Metadata responses, for example while the topic is created."""

COORDINATOR_MOVED = CONNECTION_LOST | {
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
}
"""Look up the coordinator, and retry the request there."""

COORDINATOR_UNAVAILABLE = COORDINATOR_MOVED | COORDINATOR_BUSY
"""The coordinator cannot respond now. A later request might succeed."""

COORDINATOR_ERRORS = COORDINATOR_UNAVAILABLE - CONNECTION_LOST - {ErrorCode.request_timed_out}
"""Codes that originate from a coordinator. A leader also returns them if it could not add a
partition to the transaction (KIP-890); in that case, retry at the leader.
"""

MAYBE_APPENDED: frozenset[int] = frozenset(
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
_ERROR_NAMES: dict[int, str] = {
    int(code): code.name.upper() for code in (*ErrorCode, *ClientErrorCode)
}


class UnknownErrorCode(int):
    """An error code that has no name in kio's protocol version, as an int."""

    @property
    def value(self) -> int:
        """The error code. kio's writer reads this attribute, as it does for ErrorCode."""
        return int(self)


def as_error_code(number: int) -> ErrorCode | UnknownErrorCode:
    """Return the ErrorCode for a number, or an UnknownErrorCode if the number has no name."""
    known = _NAMED.get(number)
    return UnknownErrorCode(number) if known is None else known


def error_name(code: int) -> str:
    """Return the name of an error code in capitals, or UNKNOWN_ERROR_<code> if it has no name."""
    return _ERROR_NAMES.get(code, f"UNKNOWN_ERROR_{code}")


def is_known(code: int) -> bool:
    """Return True if the code has a name."""
    return code in _ERROR_NAMES
