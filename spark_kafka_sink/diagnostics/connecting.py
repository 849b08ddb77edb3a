"""Why a server can't be reached: which step failed, and what to do. Pure."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.diagnosis import Diagnosis
from spark_kafka_sink.client.channel.state import State
from spark_kafka_sink.common.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ProtocolError,
    TlsError,
)
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.diagnostics.finding import Finding, Step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.common.errors import KafkaProdError

STEP_OF: Mapping[State, Step] = {
    State.DISCONNECTED: Step.CONNECT,
    State.LOADING_STORES: Step.TLS,
    State.RESOLVING: Step.RESOLVE,
    State.CONNECTING: Step.CONNECT,
    State.TLS_HANDSHAKE: Step.TLS,
    State.NEGOTIATING: Step.VERSIONS,
    State.SASL_HANDSHAKE: Step.LOGIN,
    State.AUTHENTICATING: Step.LOGIN,
    State.READY: Step.METADATA,
    State.DRAINING: Step.LOGIN,
}
"""Where a connection has ended, as a step of the check."""
_HINTS: Mapping[Step, str] = {
    Step.RESOLVE: "Check the name in kafka.bootstrap.servers, and that this host's name server "
    "knows it",
    Step.CONNECT: "Check host and port, that the broker runs, and that no firewall is in between",
    Step.TLS: "Check that this port is a TLS listener (kafka.security.protocol)",
    Step.VERSIONS: "Check that this port is a Kafka broker's, and kafka.security.protocol",
    Step.LOGIN: "Check kafka.sasl.mechanism, and the broker's log",
    Step.METADATA: "See the broker's log",
}


def step_of_error(error: KafkaProdError) -> Step:
    """The step that an error of the client is about, where nothing else tells."""
    if isinstance(error, TlsError):
        return Step.TLS
    if isinstance(error, AuthenticationError):
        return Step.LOGIN
    return Step.VERSIONS if isinstance(error, ProtocolError) else Step.CONNECT


def passed_before(step: Step) -> tuple[Step, ...]:
    """The steps of a connection that were passed when `step` failed, in their order."""
    steps = (Step.RESOLVE, Step.CONNECT, Step.TLS, Step.VERSIONS, Step.LOGIN)
    return steps[: steps.index(step)] if step in steps else steps


def silent(state: State, seconds: float) -> Diagnosis:
    """The diagnosis of an attempt that has not come to its end in time."""
    return Diagnosis(f"no answer within {seconds:g} s", state=state, unanswered=True)


def judge_connection(server: str, diagnosis: Diagnosis) -> Finding:
    """What the failure of an attempt to connect means."""
    error = diagnosis.error
    step = STEP_OF[diagnosis.state]
    if isinstance(error, AuthenticationError) and step is Step.METADATA:
        step = Step.LOGIN  # a listener that asks for SASL, and was asked something else
    if error is None:
        hint = _HINTS[step]
        error = BrokerUnavailableError(
            f"{server}: {diagnosis.reason}", hint=hint[0].lower() + hint[1:]
        )
    return Finding.failure(step, error, local=diagnosis.unanswered)


def judge_unreachable(findings: list[Finding], servers: int) -> Finding:
    """One finding for all bootstrap servers, none of which could be reached.

    It is of this host alone where any server has not answered at all, or none was tried.

    Args:
        findings: one for each server that was tried.
        servers: how many there are.
    """
    if not findings:
        return Finding.failure(
            Step.CONNECT,
            BrokerUnavailableError("no bootstrap server has answered", hint=_HINTS[Step.CONNECT]),
            local=True,
        )
    first, local = findings[0], any(finding.local for finding in findings)
    if len(findings) == 1 and first.error is not None:
        error = copy(first.error)
    else:
        reasons = "; ".join(finding.text for finding in findings)
        error = BrokerUnavailableError(
            f"none of {plural(servers, 'bootstrap server')} can be used: {reasons}",
            hint=_HINTS[first.step],
        )
    return Finding.failure(first.step, error, local=local)


def judge_brokers(failures: Mapping[str, Finding], brokers: int) -> Finding:
    """The addresses that brokers announce, and that tasks go to.

    Args:
        failures: what came of those that can't be reached, by "broker 1 at host:port".
        brokers: how many there are.
    """
    if not failures:
        which = "it" if brokers == 1 else f"each of {brokers}"
        return Finding.ok(Step.BROKERS, f"{which} can be reached at the address that it announces")
    told = "; ".join(f"{name}: {finding.text}" for name, finding in failures.items())
    error = BrokerUnavailableError(
        f"{len(failures)} of {plural(brokers, 'broker')} can't be reached at the address that "
        f"{'it announces' if len(failures) == 1 else 'they announce'}. {told}",
        hint="Set advertised.listeners on the brokers to what clients can reach, or make these "
        "names and ports reachable from here and from the executors",
    )
    local = all(finding.local for finding in failures.values())
    return Finding.failure(Step.BROKERS, error, local=local)
