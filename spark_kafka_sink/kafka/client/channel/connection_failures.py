"""Describe connection failures to the user, and decide when retrying is pointless.

`diagnose` classifies the failure of one connection. `ConnectionFailures` collects the failures of
all brokers and decides when the client must give up.
"""

from __future__ import annotations

import errno
import socket
import ssl
from copy import copy
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.config.security.security_config import SecurityConfig, SecurityProtocol
from spark_kafka_sink.kafka.client.channel.transport import ChannelState
from spark_kafka_sink.kafka.protocol.frame import OtherProtocolError, TlsBytesError

if TYPE_CHECKING:
    from collections.abc import Iterable


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

REPEATED = 3
"""Number of repeated failures after which a failure is not considered a coincidence."""
LASTING_S = 4.0
"""Seconds after which failures are not considered temporary. Restarts take less time."""


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
    """Why a connection ended.

    `error` is the error to raise if retrying is pointless. `state` is the state that the connection
    had reached. `is_unanswered` is True if there was no response, for example due to a firewall.
    In that case, a client on a different host might succeed.
    """

    reason: str
    kind: FailureKind = FailureKind.TEMPORARY
    error: errors.KafkaProdError | None = None
    state: ChannelState = ChannelState.DISCONNECTED
    is_unanswered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The progress of a connection that has ended.

    `has_responded` is True if the broker had responded to a request after the handshake.
    `is_waiting` is True if requests were in flight. `is_accepted` is True if any broker had
    accepted the client.
    """

    broker: str
    security: SecurityConfig
    state: ChannelState
    has_responded: bool = False
    is_waiting: bool = False
    is_accepted: bool = False


def diagnose(error: Exception, circumstances: Circumstances) -> Diagnosis:
    """Return the reason why a connection ended."""
    return replace(
        _diagnose(error, circumstances),
        state=circumstances.state,
        is_unanswered=_is_unanswered(error),
    )


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
        return Diagnosis(reason_of(error))
    if (mismatch := _mismatch_error(circumstances)) is not None:
        return Diagnosis(_message_with_hint(mismatch), FailureKind.MISMATCH, mismatch)
    return Diagnosis(reason_of(error))


def reason_of(error: Exception) -> str:
    """Return the reason why a connection ended, as text for the user."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _diagnose_rejection(error: errors.KafkaProdError, circumstances: Circumstances) -> Diagnosis:
    named = copy(error)
    named.broker = named.broker or circumstances.broker
    return Diagnosis(_message_with_hint(error), FailureKind.REJECTED, named)


def _other_protocol(error: OtherProtocolError, circumstances: Circumstances) -> Diagnosis:
    protocol = circumstances.security.protocol
    if isinstance(error, TlsBytesError) and protocol in _ENCRYPTED:
        named = errors.BrokerUnavailableError(
            f"the port uses TLS, but kafka.security.protocol is {protocol.value}",
            hint=f"Set kafka.security.protocol={_ENCRYPTED[protocol].value}"
            + ("." if protocol.uses_sasl else ", or SASL_SSL if it requires a login."),
        )
        return _diagnose_rejection(named, circumstances)
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


@dataclass(slots=True)
class _Streak:
    """Failures of one address since its last success.

    `since` is the time of the first rejection or mismatch.
    """

    latest: Diagnosis
    times: int = 0
    rejections: int = 0
    since: float | None = None


class ConnectionFailures:
    """Failures since the last success, by address; `fatal` is set once retrying is pointless.

    Some failures are rejections (`FailureKind.REJECTED`), such as a wrong password or an untrusted
    certificate. Whether a rejection is fatal depends on earlier attempts:

    - No broker has accepted the client yet: a rejection is fatal once every bootstrap server has
      rejected the client. It is also fatal after `REPEATED` rejections if each bootstrap server has
      failed once or the rejections have lasted for `LASTING_S`. This way, a job does not fail
      because one of several servers has an expired certificate.
    - A broker has accepted the client: while a job runs, a password might be changed on one broker
      after another, or a token file might be replaced. Therefore, the client reloads the secrets
      and retries. The rejection is fatal once a broker has rejected the client `REPEATED` times
      over at least `LASTING_S`.

    Other failures only suggest that the port uses a different protocol (`FailureKind.MISMATCH`).
    Before any broker has accepted the client, they are fatal once each bootstrap server has failed
    `REPEATED` times and such failures have lasted for `LASTING_S`. Afterwards they indicate a
    restarting broker, and are never fatal.

    Used only by the sender thread, but any thread can copy `reasons`. Source:
    ``NetworkClient.processDisconnection``, where the first rejection is fatal.
    """

    def __init__(self, bootstrap_servers: Iterable[str]) -> None:
        self.reasons: dict[str, str] = {}
        """The reason for the latest failure by address; removed after a success."""
        self.fatal: errors.KafkaProdError | None = None
        """The fatal error, after which retrying is pointless, or None."""
        self._bootstrap_servers = frozenset(bootstrap_servers)
        self._streaks: dict[str, _Streak] = {}
        self.is_accepted = False
        """True once a broker has accepted the client."""

    def record_success(self, address: str) -> None:
        """Record that a broker has accepted the client's login or has responded to a request."""
        self.is_accepted = True
        self.reasons.pop(address, None)
        self._streaks.pop(address, None)

    def record_failure(self, address: str, diagnosis: Diagnosis, now: float) -> None:
        """Record a lost connection or a failed attempt."""
        self.reasons[address] = diagnosis.reason
        streak = self._streaks.setdefault(address, _Streak(diagnosis))
        streak.latest = diagnosis
        streak.times += 1
        streak.rejections += diagnosis.kind is FailureKind.REJECTED
        if diagnosis.kind is FailureKind.TEMPORARY:
            return
        if streak.since is None:
            streak.since = now
        if self.fatal is None and self._is_fatal(streak, now):
            self.fatal = diagnosis.error

    def clear(self) -> None:
        """Forget the fatal error and what led to it, so that the client connects again."""
        self.fatal = None
        self._streaks.clear()

    def diagnosis(self, address: str) -> Diagnosis | None:
        """Return why the latest attempt at an address failed; None after a success."""
        streak = self._streaks.get(address)
        return None if streak is None else streak.latest

    def _is_fatal(self, streak: _Streak, now: float) -> bool:
        is_old = streak.since is not None and now - streak.since >= LASTING_S
        if self.is_accepted:
            return is_old and streak.rejections >= REPEATED
        if is_old and self._all_have_failed(REPEATED):
            return True
        if streak.latest.kind is not FailureKind.REJECTED:
            return False
        rejections = sum(streak.rejections for streak in self._streaks.values())
        servers = [self._streaks.get(address) for address in self._bootstrap_servers]
        is_rejected_by_all = all(
            streak is not None and streak.latest.kind is FailureKind.REJECTED for streak in servers
        )
        return is_rejected_by_all or (
            rejections >= REPEATED and (is_old or self._all_have_failed(1))
        )

    def _all_have_failed(self, times: int) -> bool:
        """Return True if every bootstrap server has failed at least `times` times."""
        servers = [self._streaks.get(address) for address in self._bootstrap_servers]
        return all(streak is not None and streak.times >= times for streak in servers)
