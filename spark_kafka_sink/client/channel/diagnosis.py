"""Why a connection ended: in words, and whether another attempt could end otherwise."""

from __future__ import annotations

import errno
import socket
import ssl
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.state import State
from spark_kafka_sink.common.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    KafkaProdError,
    ProtocolError,
    TlsError,
)
from spark_kafka_sink.config.security.model import SecurityProtocol
from spark_kafka_sink.protocol.frame import OtherProtocolError

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import SecurityConfig

CLOSED = "the broker closed the connection"
_NOT_THERE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})

_ENCRYPTED = {
    SecurityProtocol.PLAINTEXT: SecurityProtocol.SSL,
    SecurityProtocol.SASL_PLAINTEXT: SecurityProtocol.SASL_SSL,
}
_PLAIN = {with_tls: without for without, with_tls in _ENCRYPTED.items()}
_WITH_SASL = {
    SecurityProtocol.PLAINTEXT: SecurityProtocol.SASL_PLAINTEXT,
    SecurityProtocol.SSL: SecurityProtocol.SASL_SSL,
}


class Verdict(Enum):
    """What a failure says of the next attempt."""

    PASSING = auto()
    """It may go away by itself: a broker restarts, the network is interrupted."""
    MISMATCH = auto()
    """The port seems to speak something else; a broker that just stops may look the same."""
    REFUSED = auto()
    """The broker refuses this client, or the client this broker: no time will change that."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a connection ended with; `error` is what to raise if no attempt can help.

    `state` is how far it had come. `unanswered`: nobody was there to refuse it, as behind a
    firewall; a client on another host may fare better.
    """

    reason: str
    verdict: Verdict = Verdict.PASSING
    error: KafkaProdError | None = None
    state: State = State.DISCONNECTED
    unanswered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """How far a connection had come.

    `has_answered`: the broker had answered a request that was not the handshake's. `waiting`:
    requests were in flight. `is_accepted`: some broker has taken the client's requests before.
    """

    broker: str
    security: SecurityConfig
    state: State
    has_answered: bool = False
    waiting: bool = False
    is_accepted: bool = False


def diagnose(error: Exception, at: Circumstances) -> Diagnosis:
    """Find out why a connection ended; pure."""
    return replace(_diagnose(error, at), state=at.state, unanswered=_is_unanswered(error))


def _is_unanswered(error: Exception) -> bool:
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, TimeoutError) or (
        isinstance(error, OSError) and error.errno in _NOT_THERE
    )


def _diagnose(error: Exception, at: Circumstances) -> Diagnosis:
    if isinstance(error, OtherProtocolError):
        return _other_protocol(error, at)
    if isinstance(error, ProtocolError):
        return Diagnosis(str(error))
    if isinstance(error, KafkaProdError):
        return _refused(error, at)
    if isinstance(error, ssl.SSLError) and not at.has_answered:
        return _tls(error, at)
    if isinstance(error, TimeoutError) or not isinstance(error, OSError):
        return Diagnosis(reason_of(error))
    if (mismatch := _mismatch(at)) is not None:
        return Diagnosis(_text(mismatch), Verdict.MISMATCH, mismatch)
    return Diagnosis(reason_of(error))


def reason_of(error: Exception) -> str:
    """Why a connection ended, in words for the user."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _refused(error: KafkaProdError, at: Circumstances) -> Diagnosis:
    named = copy(error)
    named.broker = named.broker or at.broker
    return Diagnosis(_text(error), Verdict.REFUSED, named)


def _other_protocol(error: OtherProtocolError, at: Circumstances) -> Diagnosis:
    protocol = at.security.protocol
    if error.is_tls and protocol in _ENCRYPTED:
        named = BrokerUnavailableError(
            f"the port speaks TLS, and kafka.security.protocol is {protocol.value}",
            hint=f"Set kafka.security.protocol={_ENCRYPTED[protocol].value}"
            + (", or SASL_SSL where it asks for a login too" if not protocol.uses_sasl else ""),
        )
        return _refused(named, at)
    unclear = BrokerUnavailableError(error.message, broker=at.broker, hint=error.hint)
    return Diagnosis(_text(unclear), Verdict.MISMATCH, unclear)


def _tls(error: ssl.SSLError, at: Circumstances) -> Diagnosis:
    from spark_kafka_sink.security.tls.failures import tls_failure  # only a client of TLS waits

    assert at.security.tls is not None
    failure = tls_failure(error, at.security.tls, at.broker)
    if isinstance(failure, TlsError):
        return _refused(failure, at)
    if (mismatch := _mismatch(at)) is not None:
        return Diagnosis(_text(mismatch), Verdict.MISMATCH, mismatch)
    return Diagnosis(_text(failure))


def _mismatch(at: Circumstances) -> KafkaProdError | None:
    """What to tell of a server that closed the connection where brokers don't."""
    protocol, broker = at.security.protocol, at.broker
    match at.state:
        case State.TLS_HANDSHAKE:
            return TlsError(
                "the server closed the connection in the TLS handshake: is there a TLS listener "
                "at this port?",
                broker=broker,
                hint="Name the port of one. Only where the cluster has none, and you may send "
                f"passwords and data in the open: kafka.security.protocol={_PLAIN[protocol].value}",
            )
        case State.NEGOTIATING if protocol.uses_tls:
            return TlsError(
                "the server closed the connection after the TLS handshake, before it answered "
                "ApiVersions: does it ask for a client's certificate?",
                broker=broker,
                hint="If it does, set kafka.ssl.keystore.location",
            )
        case State.NEGOTIATING:
            return BrokerUnavailableError(
                "the server closed the connection before it answered ApiVersions: is it a Kafka "
                f"broker, and is its listener {protocol.value}, without TLS?",
                broker=broker,
                hint=f"If it has TLS, set kafka.security.protocol={_ENCRYPTED[protocol].value}",
            )
        case State.SASL_HANDSHAKE | State.AUTHENTICATING:
            return AuthenticationError(
                "the broker closed the connection during the SASL login",
                broker=broker,
                hint="Its log says why; check kafka.sasl.mechanism and kafka.security.protocol",
            )
        case State.READY if at.waiting and not at.is_accepted and not protocol.uses_sasl:
            return AuthenticationError(
                "the broker closed the connection at the first request: does its listener ask for "
                "SASL?",
                broker=broker,
                hint=f"If it does, set kafka.security.protocol={_WITH_SASL[protocol].value} and "
                "kafka.sasl.mechanism",
            )
        case _:
            return None


def _text(error: KafkaProdError) -> str:
    """The message and what to do, without the broker, which whoever shows it names."""
    if not error.hint:
        return error.message
    stop = "" if error.message.endswith("?") else "."
    return f"{error.message}{stop} {error.hint}".removesuffix(".")
