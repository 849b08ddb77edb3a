"""Kafka's error codes by name, and groups of codes that are handled alike.

`ErrorCode` (from kio) is Kafka's ``Errors`` table: number, name, `retriable`, and in its source a
description of each code. This module adds client-side codes, and a type for codes unknown to kio.
Source: ``org.apache.kafka.common.protocol.Errors`` and the exception classes it names.
"""

from __future__ import annotations

from enum import IntEnum

from kio.schema.errors import ErrorCode

__all__ = [
    "AUTHORIZATION_FAILED",
    "COORDINATOR_UNAVAILABLE",
    "FATAL_TO_PRODUCER",
    "INVALID_METADATA",
    "INVALID_RECORDS",
    "MAYBE_APPENDED",
    "RECORDS_TOO_LARGE",
    "RETRIABLE_AT_LEADER",
    "TRANSIENT_TOPIC_ERRORS",
    "ClientErrorCode",
    "ErrorCode",
    "UnknownErrorCode",
    "as_error_code",
    "error_name",
    "is_known",
]


class ClientErrorCode(IntEnum):
    """Client-side failures of a request; no broker sends these codes."""

    disconnected = -2
    """The connection was lost, or the request timed out, before a response arrived."""
    not_sent = -3
    """The connection was lost before the request was completely written: it had no effect."""


class UnknownErrorCode(int):
    """An error code without a name in kio's protocol version; a plain int."""

    @property
    def value(self) -> int:
        """The number itself; the writer reads it as it does for ErrorCode."""
        return int(self)


INVALID_METADATA = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.replica_not_available,
        ErrorCode.network_exception,
        ErrorCode.kafka_storage_error,
        ErrorCode.listener_not_found,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)
"""The client's metadata is stale: refresh it and retry. Source: ``InvalidMetadataException``."""

TRANSIENT_TOPIC_ERRORS = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)
"""Temporary errors of a topic in Metadata responses, for example while it is being created."""

COORDINATOR_UNAVAILABLE = frozenset(
    {
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
"""No producer id is available now; a later InitProducerId may succeed."""

RETRIABLE_AT_LEADER = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
    }
)
"""The leader is correct but could not append or replicate the batch: retry it there."""

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
"""The batch may be in the log although no success was reported. A leader that has appended it and
steps down before its followers have it returns 3, 6 or 56 (``DelayedProduce``)."""

FATAL_TO_PRODUCER = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
"""The producer id cannot be used any more, or not by this client."""

AUTHORIZATION_FAILED = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
"""The client is authenticated, but not authorized for the request."""

RECORDS_TOO_LARGE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
"""The batch exceeds the topic's max.message.bytes or segment.bytes."""

INVALID_RECORDS = RECORDS_TOO_LARGE | {ErrorCode.invalid_timestamp, ErrorCode.invalid_record}
"""The records themselves are rejected; topic and broker work."""

_NAMED = {int(code): code for code in ErrorCode}
_NAMES: dict[int, str] = {int(code): code.name.upper() for code in (*ErrorCode, *ClientErrorCode)}


def as_error_code(number: int) -> ErrorCode | UnknownErrorCode:
    """Return the ErrorCode of a number, or an UnknownErrorCode if it has no name."""
    known = _NAMED.get(number)
    return UnknownErrorCode(number) if known is None else known


def error_name(code: int) -> str:
    """Return Kafka's name of an error code in capitals; UNKNOWN_ERROR_<code> if it has none."""
    return _NAMES.get(code, f"UNKNOWN_ERROR_{code}")


def is_known(code: int) -> bool:
    """Return True if the code has a name."""
    return code in _NAMES
