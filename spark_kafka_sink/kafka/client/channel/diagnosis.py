"""Describe why a connection has failed, to the user: `diagnose`."""

from __future__ import annotations

import errno
import socket
import ssl
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, auto

from spark_kafka_sink.common import errors
from spark_kafka_sink.config.security.security_config import SecurityConfig, SecurityProtocol
from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.protocol.frame import OtherProtocolError, TlsBytesError

CLOSED = "the broker closed the connection"
_UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN})

_ENCRYPTED = {
    SecurityProtocol.PLAINTEXT: SecurityProtocol.SSL,
    SecurityProtocol.SASL_PLAINTEXT: SecurityProtocol.SASL_SSL,
}
_PLAIN = {with_tls: without for without, with_tls in _ENCRYPTED.items()}
_WITH_SASL = {
    SecurityProtocol.PLAINTEXT: SecurityProtocol.SASL_PLAINTEXT,
    SecurityProtocol.SSL: SecurityProtocol.SASL_SSL,
}
_TIMEOUT_MESSAGES = {
    ChannelState.LOADING_STORES: "timeout while reading the truststore or the keystore: does the "
    "file system respond (kafka.ssl.truststore.location, kafka.ssl.keystore.location)?",
    ChannelState.RESOLVING: "timeout while resolving the host name",
    ChannelState.CONNECTING: "timeout while connecting",
    ChannelState.TLS_HANDSHAKE: "timeout during the TLS handshake: is there a TLS listener on this "
    "port (kafka.security.protocol)?",
    ChannelState.NEGOTIATING: "timeout while waiting for the response to ApiVersions",
    ChannelState.SASL_HANDSHAKE: "timeout while getting a token or ticket, or waiting for the "
    "response to SaslHandshake",
    ChannelState.AUTHENTICATING: "timeout during the SASL login",
    ChannelState.DRAINING: "timeout before the login was renewed: earlier requests were not "
    "completed",
}
"""Timeout messages by state.

The timeout is socket.connection.setup.timeout.ms. In the state DRAINING, request.timeout.ms is
added.
"""


class FailureKind(Enum):
    """The consequence of a failure for the next attempt."""

    TEMPORARY = auto()
    """A temporary failure, such as a broker restart or a network interruption."""
    MISMATCH = auto()
    """The port appears to use a different protocol, or the broker is stopping."""
    REJECTED = auto()
    """The broker rejected the client, or the client rejected the broker. Retrying does not help."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a connection ended."""

    reason: str
    kind: FailureKind = FailureKind.TEMPORARY
    error: errors.KafkaProdError | None = None
    """The error to raise if retrying is pointless."""
    state: ChannelState = ChannelState.DISCONNECTED
    """The state that the connection had reached."""
    is_unanswered: bool = False
    """True if there was no response, for example due to a firewall. In that case, a client on a
    different host might succeed.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The progress of a connection that has ended."""

    broker: str
    security: SecurityConfig
    state: ChannelState
    has_responded: bool = False
    """True if the broker had responded to a request after the handshake."""
    is_waiting: bool = False
    """True if requests were in flight."""
    is_accepted: bool = False
    """True if any broker had accepted the client."""


def diagnose(error: Exception, circumstances: Circumstances) -> Diagnosis:
    """Return the reason why a connection ended."""
    return replace(
        _diagnose(error, circumstances),
        state=circumstances.state,
        is_unanswered=_is_unanswered(error),
    )


def connect_timeout(state: ChannelState) -> TimeoutError:
    """Return the error for a connection attempt that took too long in this state."""
    return TimeoutError(_TIMEOUT_MESSAGES[state])


def _is_unanswered(error: Exception) -> bool:
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, TimeoutError) or (
        isinstance(error, OSError) and error.errno in _UNREACHABLE
    )


def _diagnose(error: Exception, circumstances: Circumstances) -> Diagnosis:
    if isinstance(error, OtherProtocolError):
        return _other_protocol(error, circumstances)
    if isinstance(error, errors.ProtocolError):
        return Diagnosis(str(error))
    if isinstance(error, errors.KafkaProdError):
        return _diagnose_rejection(error, circumstances)
    if isinstance(error, ssl.SSLError) and not circumstances.has_responded:
        return _diagnose_tls(error, circumstances)
    if isinstance(error, TimeoutError) or not isinstance(error, OSError):
        return Diagnosis(_reason_of(error))
    if (mismatch := _mismatch_error(circumstances)) is not None:
        return Diagnosis(_message_with_hint(mismatch), FailureKind.MISMATCH, mismatch)
    return Diagnosis(_reason_of(error))


def _reason_of(error: Exception) -> str:
    """Return the reason why a connection ended, as text for the user."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _diagnose_rejection(error: errors.KafkaProdError, circumstances: Circumstances) -> Diagnosis:
    located_error = copy(error)
    located_error.broker = located_error.broker or circumstances.broker
    return Diagnosis(_message_with_hint(error), FailureKind.REJECTED, located_error)


def _other_protocol(error: OtherProtocolError, circumstances: Circumstances) -> Diagnosis:
    protocol = circumstances.security.protocol
    if isinstance(error, TlsBytesError) and protocol in _ENCRYPTED:
        unavailable = errors.BrokerUnavailableError(
            f"the port uses TLS, but kafka.security.protocol is {protocol.value}",
            hint=f"Set kafka.security.protocol={_ENCRYPTED[protocol].value}"
            + ("." if protocol.uses_sasl else ", or SASL_SSL if it requires a login."),
        )
        return _diagnose_rejection(unavailable, circumstances)
    unclear = errors.BrokerUnavailableError(
        error.message, broker=circumstances.broker, hint=error.hint
    )
    return Diagnosis(_message_with_hint(unclear), FailureKind.MISMATCH, unclear)


def _diagnose_tls(error: ssl.SSLError, circumstances: Circumstances) -> Diagnosis:
    from spark_kafka_sink.kafka.security.tls.failures import tls_failure  # needed only with TLS

    assert circumstances.security.tls is not None
    failure = tls_failure(error, circumstances.security.tls, circumstances.broker)
    if isinstance(failure, errors.TlsError):
        return _diagnose_rejection(failure, circumstances)
    if (mismatch := _mismatch_error(circumstances)) is not None:
        return Diagnosis(_message_with_hint(mismatch), FailureKind.MISMATCH, mismatch)
    return Diagnosis(_message_with_hint(failure))


def _mismatch_error(circumstances: Circumstances) -> errors.KafkaProdError | None:
    """Return the error if a Kafka broker would not have closed the connection here, or None."""
    protocol, broker = circumstances.security.protocol, circumstances.broker
    match circumstances.state:
        case ChannelState.TLS_HANDSHAKE:
            return errors.TlsError(
                "the server closed the connection during the TLS handshake: is there a TLS "
                "listener on this port?",
                broker=broker,
                hint="Use the port of a TLS listener. Only if the cluster has none, and passwords "
                "and data may be sent unencrypted, set "
                f"kafka.security.protocol={_PLAIN[protocol].value}.",
            )
        case ChannelState.NEGOTIATING if protocol.uses_tls:
            return errors.TlsError(
                "the server closed the connection after the TLS handshake, before it responded to "
                "ApiVersions: does it require a client certificate?",
                broker=broker,
                hint="If it does, set kafka.ssl.keystore.location.",
            )
        case ChannelState.NEGOTIATING:
            return errors.BrokerUnavailableError(
                "the server closed the connection before it responded to ApiVersions: is it a "
                f"Kafka broker, and is its listener {protocol.value}, without TLS?",
                broker=broker,
                hint=f"If it uses TLS, set kafka.security.protocol={_ENCRYPTED[protocol].value}.",
            )
        case ChannelState.SASL_HANDSHAKE | ChannelState.AUTHENTICATING:
            return errors.AuthenticationError(
                "the broker closed the connection during the SASL login",
                broker=broker,
                hint="Check kafka.sasl.mechanism, kafka.security.protocol and the broker's log.",
            )
        case ChannelState.READY if (
            circumstances.is_waiting and not circumstances.is_accepted and not protocol.uses_sasl
        ):
            return errors.AuthenticationError(
                "the broker closed the connection after the first request: does its listener "
                "require SASL?",
                broker=broker,
                hint=f"If it does, set kafka.security.protocol={_WITH_SASL[protocol].value} and "
                "kafka.sasl.mechanism.",
            )
        case _:
            return None


def _message_with_hint(error: errors.KafkaProdError) -> str:
    """Return the message and the hint, without the broker, which the caller adds."""
    if not error.hint:
        return error.message
    stop = "" if error.message.endswith("?") else "."
    return f"{error.message}{stop} {error.hint}".removesuffix(".")
