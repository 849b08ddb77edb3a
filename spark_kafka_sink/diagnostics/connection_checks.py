"""Judge the connections to the brokers, by step and by broker."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding
from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.diagnosis import Diagnosis, FailureKind

if TYPE_CHECKING:
    from collections.abc import Mapping


_STEP_OF: Mapping[ChannelState, CheckStep] = {
    ChannelState.DISCONNECTED: CheckStep.CONNECT,
    ChannelState.LOADING_STORES: CheckStep.TLS,
    ChannelState.RESOLVING: CheckStep.RESOLVE,
    ChannelState.CONNECTING: CheckStep.CONNECT,
    ChannelState.TLS_HANDSHAKE: CheckStep.TLS,
    ChannelState.NEGOTIATING: CheckStep.VERSIONS,
    ChannelState.SASL_HANDSHAKE: CheckStep.LOGIN,
    ChannelState.AUTHENTICATING: CheckStep.LOGIN,
    ChannelState.READY: CheckStep.METADATA,
    ChannelState.DRAINING: CheckStep.LOGIN,
}
"""The step in which a connection failed, by the state of the connection."""
_HINTS: Mapping[CheckStep, str] = {
    CheckStep.RESOLVE: "Check the name in kafka.bootstrap.servers, and that this host can resolve "
    "it.",
    CheckStep.CONNECT: "Check the host and port, that the broker is running, and that no firewall "
    "blocks the connection.",
    CheckStep.TLS: "Check that this port is a TLS listener (kafka.security.protocol).",
    CheckStep.VERSIONS: "Check kafka.security.protocol, and that a Kafka broker uses this port.",
    CheckStep.LOGIN: "Check kafka.sasl.mechanism and the broker's log.",
    CheckStep.METADATA: "Check the broker's log.",
}


def step_of_error(error: errors.KafkaProdError) -> CheckStep:
    """Return the step for a client error whose connection state is unknown."""
    if isinstance(error, errors.TlsError):
        return CheckStep.TLS
    if isinstance(error, errors.AuthenticationError):
        return CheckStep.LOGIN
    return CheckStep.VERSIONS if isinstance(error, errors.ProtocolError) else CheckStep.CONNECT


def passed_before(step: CheckStep) -> tuple[CheckStep, ...]:
    """Return the steps of a connection that passed before `step` failed, in order."""
    steps = (
        CheckStep.RESOLVE,
        CheckStep.CONNECT,
        CheckStep.TLS,
        CheckStep.VERSIONS,
        CheckStep.LOGIN,
    )
    return steps[: steps.index(step)] if step in steps else steps


def no_response(state: ChannelState, seconds: float) -> Diagnosis:
    """Return the diagnosis of a connection attempt that timed out."""
    return Diagnosis(f"no response within {seconds:g} s", state=state, is_unanswered=True)


def connection_finding(server: str, diagnosis: Diagnosis) -> Finding:
    """Return the finding for a failed connection attempt."""
    error = diagnosis.error
    step = _STEP_OF[diagnosis.state]
    if isinstance(error, errors.AuthenticationError) and step is CheckStep.METADATA:
        # The listener requires SASL, but the client sent a different request.
        step = CheckStep.LOGIN
    if error is None:
        error = errors.BrokerUnavailableError(f"{server}: {diagnosis.reason}", hint=_HINTS[step])
    return Finding.failure(step, error, is_local=not _is_rejected(diagnosis))


def _is_rejected(diagnosis: Diagnosis) -> bool:
    """Return True if a broker rejected the client for a reason that is the same on every host.

    In contrast, trust in a certificate and the availability of a ticket or token can depend on the
    host.
    """
    error = diagnosis.error
    if diagnosis.kind is not FailureKind.REJECTED or error is None:
        return False
    return error.kafka_error is not None or isinstance(error, errors.BrokerUnavailableError)


def unreachable_finding(findings: list[Finding], servers: int) -> Finding:
    """Return one finding for all bootstrap servers if none of them could be reached.

    `is_local` is True if a server did not respond at all, or if no server was tried.

    Args:
        findings: one finding for each server that was tried.
        servers: number of bootstrap servers.
    """
    if not findings:
        return Finding.failure(
            CheckStep.CONNECT,
            errors.BrokerUnavailableError(
                "no bootstrap server responded", hint=_HINTS[CheckStep.CONNECT]
            ),
            is_local=True,
        )
    first = findings[0]
    is_local = any(finding.is_local for finding in findings)
    if len(findings) == 1 and first.error is not None:
        error = copy(first.error)
    else:
        reasons = "; ".join(finding.text for finding in findings)
        error = errors.BrokerUnavailableError(
            f"none of {plural(servers, 'bootstrap server')} can be used: {reasons}",
            hint=_HINTS[first.step],
        )
    return Finding.failure(first.step, error, is_local=is_local)


def brokers_finding(failures: Mapping[str, Finding], brokers: int) -> Finding:
    """Return the finding for the brokers' advertised addresses, to which tasks connect.

    Args:
        failures: findings of the unreachable brokers, by a name such as "broker 1".
        brokers: number of brokers.
    """
    if not failures:
        subject = "it" if brokers == 1 else f"each of {brokers}"
        return Finding.ok(CheckStep.BROKERS, f"{subject} can be reached at its advertised address")
    details = "; ".join(f"{name}: {finding.text}" for name, finding in failures.items())
    error = errors.BrokerUnavailableError(
        f"{len(failures)} of {plural(brokers, 'broker')} cannot be reached at the advertised "
        f"{'address' if len(failures) == 1 else 'addresses'}. {details}",
        hint="Set advertised.listeners on the brokers to addresses that clients can reach, or "
        "make these names and ports reachable from here and from the executors.",
    )
    is_local = all(finding.is_local for finding in failures.values())
    return Finding.failure(CheckStep.BROKERS, error, is_local=is_local)
