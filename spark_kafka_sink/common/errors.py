"""The exception classes of the package.

Each error reports what failed, where, and what to do next.
"""

from __future__ import annotations

from typing import Self, TypedDict, Unpack

from spark_kafka_sink.common.delivery_status import PartitionStatus, describe_statuses

FIELDS = {"topic": "topic", "partition": "partition", "broker": "broker", "kafka_error": "error"}
"""Fields of an error that are part of its text, with their names in the text."""


class ErrorFields(TypedDict, total=False):
    """Optional context of an error, which is part of its text."""

    topic: str | None
    partition: int | None
    broker: str | None
    """"host:port" or a node id."""
    kafka_error: str | None
    """The name of Kafka's error, such as NOT_LEADER_OR_FOLLOWER."""
    hint: str | None
    """What the user should do next."""
    statuses: tuple[PartitionStatus, ...]
    """The outcomes of the records, one for each partition and each outcome other than "persisted".
    """


class KafkaProdError(Exception):
    """The base class of all errors that this package raises.

    Args:
        message: what failed, as a sentence without a final full stop.
        fields: keyword arguments of `ErrorFields`, which become attributes (None if not given).
    """

    topic: str | None = None
    partition: int | None = None
    broker: str | None = None
    kafka_error: str | None = None
    hint: str | None = None
    statuses: tuple[PartitionStatus, ...] = ()
    """The outcomes of the records, if the error ended a session that had records."""

    def __init__(self, message: str, **fields: Unpack[ErrorFields]) -> None:
        unknown = fields.keys() - {*FIELDS, "hint", "statuses"}
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        super().__init__(message)
        self.message = message
        self.__dict__.update(fields)

    def __str__(self) -> str:
        context = ((text, getattr(self, name)) for name, text in FIELDS.items())
        known = ", ".join(f"{text}={value}" for text, value in context if value is not None)
        text = f"{self.message} [{known}]" if known else self.message
        text = f"{text}. {self.hint}" if self.hint else text
        summary = describe_statuses(self.statuses)
        return f"{text}\n{summary}" if summary else text

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).rebuild, (self.message, self._pickled_state())

    @classmethod
    def rebuild(cls, message: str, state: dict[str, object]) -> Self:
        """Recreate the error from its pickled state, in any process."""
        error = cls(message)
        error.__dict__.update(state)
        return error

    def _pickled_state(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in (*FIELDS, "hint", "statuses")}


class ConfigError(KafkaProdError):
    """An option is invalid, missing, unknown, or in conflict with another option."""


class ColumnError(KafkaProdError):
    """The DataFrame or one of its rows violates the column contract."""


class ProtocolError(KafkaProdError):
    """A broker's response is invalid, or the broker supports none of the required versions."""


class BrokerUnavailableError(KafkaProdError):
    """No broker can be reached. The message lists every tried address with the reason."""


class AuthenticationError(KafkaProdError):
    """The broker does not accept the client's identity, or the client does not accept the broker's.

    Not retriable: no retry with the same secrets can succeed.
    """


class TlsError(AuthenticationError):
    """TLS failed: a certificate, host name, protocol version or key is not accepted."""


class SchemaRegistryError(KafkaProdError):
    """The schema registry cannot be reached, or a schema is missing, rejected or unsupported."""


class ReportError(KafkaProdError):
    """A delivery report cannot be read, or cannot be written to its configured location."""


class UnknownTopicError(KafkaProdError):
    """The topic does not exist, and the broker did not create it."""


class BufferTimeoutError(KafkaProdError):
    """The buffer was full for max.block.ms: the brokers accept data too slowly, or not at all."""


class DeliveryError(KafkaProdError):
    """Some records will never be acknowledged. `statuses` lists their partitions and outcomes."""


class RecordTooLargeError(DeliveryError):
    """A record exceeds max.request.size or the broker's limit."""


class AuthorizationError(DeliveryError):
    """The client is not authorized for a request. The hint contains the missing ACL."""


class TransactionError(KafkaProdError):
    """A transaction cannot be started, continued or ended. Readers do not see its rows."""


class FencedError(TransactionError):
    """A newer producer or driver has fenced this one, which must stop."""


class TornTransactionError(TransactionError):
    """A batch was committed only partially: some of its transactions were lost after the decision.

    Args:
        message: what failed.
        details: one line per lost transaction and per partition with missing rows.
        fields: the keyword fields of `KafkaProdError`.
    """

    details: tuple[str, ...] = ()

    def __init__(
        self, message: str, *, details: tuple[str, ...] = (), **fields: Unpack[ErrorFields]
    ) -> None:
        super().__init__(message, **fields)
        self.details = details

    def __str__(self) -> str:
        return "\n  ".join((super().__str__(), *self.details))

    def _pickled_state(self) -> dict[str, object]:
        return {**super()._pickled_state(), "details": self.details}


def error_text(error: BaseException) -> str:
    """Return an error's text, or its class name if the text is empty or `str` fails."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - a failing `str` must not hide the error
        return type(error).__name__
