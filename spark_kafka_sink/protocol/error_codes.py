"""Kafka's error codes by name, and the groups of them that need the same treatment.

`ErrorCode` is the table of Kafka's ``Errors``: number, name, `retriable`, and in its source a line
on what each is about. Codes that a newer broker may send and codes of our own are added here.
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
    """What can become of a request beside an answer; no broker sends these."""

    disconnected = -2
    """The connection was lost, or the request timed out, before an answer came."""
    not_sent = -3
    """The connection was lost before the request was written whole, so it had no effect."""


class UnknownErrorCode(int):
    """An error code that this version of the protocol has no name for; still a plain int."""

    @property
    def value(self) -> int:
        """The number itself, as ErrorCode has it: what the writer asks for."""
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
"""The client's metadata is stale: refresh it, then retry. Source: ``InvalidMetadataException``."""

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
"""What a topic may have in a Metadata response for a while, such as one that is being created."""

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
"""No producer id can be had now; a later InitProducerId may succeed."""

RETRIABLE_AT_LEADER = frozenset(
    {
        ErrorCode.corrupt_message,
        ErrorCode.request_timed_out,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
    }
)
"""The leader is right but could not append or replicate the batch: retry it there."""

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
steps down before its followers have it answers with 3, 6 or 56 (``DelayedProduce``)."""

FATAL_TO_PRODUCER = frozenset(
    {
        ErrorCode.producer_fenced,
        ErrorCode.invalid_producer_id_mapping,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
"""The producer id can't be used any more, or not by this client."""

AUTHORIZATION_FAILED = frozenset(
    {
        ErrorCode.topic_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    }
)
"""The broker knows who asks, and does not allow what is asked for."""

RECORDS_TOO_LARGE = frozenset({ErrorCode.message_too_large, ErrorCode.record_list_too_large})
"""Larger than max.message.bytes, or than segment.bytes, of the topic."""

INVALID_RECORDS = RECORDS_TOO_LARGE | {ErrorCode.invalid_timestamp, ErrorCode.invalid_record}
"""The records are refused for what they are: topic and broker work."""

_NAMED = {int(code): code for code in ErrorCode}
_NAMES: dict[int, str] = {int(code): code.name.upper() for code in (*ErrorCode, *ClientErrorCode)}


def as_error_code(number: int) -> ErrorCode | UnknownErrorCode:
    """The error code of a number off the wire; one without a name stays a number."""
    known = _NAMED.get(number)
    return UnknownErrorCode(number) if known is None else known


def error_name(code: int) -> str:
    """Kafka's name of an error code, in capitals; unknown ones by number."""
    return _NAMES.get(code, f"UNKNOWN_ERROR_{code}")


def is_known(code: int) -> bool:
    """Whether the code has a name here."""
    return code in _NAMES
