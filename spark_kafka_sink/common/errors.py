"""Every error a user can meet. Each says what went wrong, where, and what to do next."""

from __future__ import annotations

from typing import Self, TypedDict, Unpack

from spark_kafka_sink.common.delivery_status import PartitionStatus, describe_statuses

FIELDS = ("topic", "partition", "broker", "error", "hint")


class ErrorFields(TypedDict, total=False):
    """Optional context of an error in addition to its message; all of it is shown to the user.

    `topic` and `partition` say where it happened, `broker` is "host:port" or a node id, `error` is
    Kafka's own name such as NOT_LEADER_OR_FOLLOWER, and `hint` tells what to do next.
    """

    topic: str | None
    partition: int | None
    broker: str | None
    error: str | None
    hint: str | None


class KafkaProdError(Exception):
    """The root of all errors raised by this package.

    Args:
        message: what happened, as a sentence without a final stop.
        fields: any of `ErrorFields`, by keyword; each becomes an attribute, None if not given.
    """

    topic: str | None = None
    partition: int | None = None
    broker: str | None = None
    error: str | None = None
    hint: str | None = None
    statuses: tuple[PartitionStatus, ...] = ()
    """What became of the records, where the error has ended a session that had some."""

    def __init__(self, message: str, **fields: Unpack[ErrorFields]) -> None:
        unknown = fields.keys() - set(FIELDS)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        super().__init__(message)
        self.message = message
        self.__dict__.update(fields)

    def __str__(self) -> str:
        where = ((name, getattr(self, name)) for name in FIELDS[:-1])
        known = ", ".join(f"{name}={value}" for name, value in where if value is not None)
        text = f"{self.message} [{known}]" if known else self.message
        text = f"{text}. {self.hint}" if self.hint else text
        summary = describe_statuses(self.statuses)
        return f"{text}\n{summary}" if summary else text

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self._state())

    def _state(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in (*FIELDS, "statuses")}

    @classmethod
    def rebuild(cls, message: str, state: dict[str, object]) -> Self:
        """Make the error again from what a pickle holds, in whichever process reads it."""
        error = cls(message)
        error.__dict__.update(state)
        return error


def _rebuild(cls: type[KafkaProdError], message: str, state: dict[str, object]) -> KafkaProdError:
    return cls.rebuild(message, state)


class ConfigError(KafkaProdError):
    """An option is wrong, missing, unknown, or at odds with another one."""


class ColumnError(KafkaProdError):
    """The DataFrame or one of its rows breaks the column contract."""


class ProtocolError(KafkaProdError):
    """The bytes received are not what Kafka's protocol allows."""


class BrokerUnavailableError(KafkaProdError):
    """No broker can be reached: the message holds every address tried, and why it failed."""


class AuthenticationError(KafkaProdError):
    """The broker does not accept who the client says it is, or the client not the broker.

    Final: no retry with the same secrets can succeed.
    """


class TlsError(AuthenticationError):
    """No encrypted connection: a certificate, a name, a version or a key is not accepted."""


class ReportError(KafkaProdError):
    """A delivery report can't be read, or can't be written where the user wants it."""


class UnknownTopicError(KafkaProdError):
    """The topic does not exist, and the broker did not create it."""


class BufferTimeoutError(KafkaProdError):
    """The buffer stayed full for max.block.ms: the brokers take data too slowly, or not at all."""


class DeliveryError(KafkaProdError):
    """Some records will never be acknowledged; `statuses` says which, and what became of them.

    Args:
        message: what happened.
        statuses: one entry per partition and outcome that is not simply "persisted".
        fields: the keyword fields of `KafkaProdError`.
    """

    def __init__(
        self,
        message: str,
        *,
        statuses: tuple[PartitionStatus, ...] = (),
        **fields: Unpack[ErrorFields],
    ) -> None:
        super().__init__(message, **fields)
        self.statuses = statuses


class RecordTooLargeError(DeliveryError):
    """One record is larger than max.request.size or than the broker accepts."""


class AuthorizationError(DeliveryError):
    """The broker knows who asks and does not allow it; the hint names the ACL that is missing."""


class TransactionError(KafkaProdError):
    """A transaction can't be begun, continued or decided; its rows are not visible to readers."""


class FencedError(TransactionError):
    """A newer producer or driver has taken over the transactional id, and this one must stop."""


class TornTransactionError(TransactionError):
    """A batch is decided, and some of its transactions are lost: its rows are there in part.

    Args:
        message: what happened.
        details: a line for each transaction and each partition that lacks rows.
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

    def _state(self) -> dict[str, object]:
        return {**super()._state(), "details": self.details}


def text_of(error: BaseException) -> str:
    """What an error says, or its class where it says nothing or can't be asked."""
    try:
        return str(error) or type(error).__name__
    except Exception:  # noqa: BLE001 - an error that can't be shown must not hide that there is one
        return type(error).__name__
