"""Findings about connections."""

import socket

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, TlsError
from spark_kafka_sink.config.security.security_config import SecurityConfig
from spark_kafka_sink.diagnostics.connection_checks import connection_finding, unreachable_finding
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding
from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.diagnosis import Circumstances, diagnose
from spark_kafka_sink.kafka.protocol.frame import OtherProtocolError, TlsBytesError


def failure(error: Exception, state: ChannelState) -> Finding:
    at = Circumstances(broker="kafka:9092", security=SecurityConfig(), state=state)
    return connection_finding("kafka:9092", diagnose(error, at))


@pytest.mark.parametrize(
    ("error", "state", "step", "is_local"),
    [
        (
            socket.gaierror(socket.EAI_NONAME, "unknown"),
            ChannelState.RESOLVING,
            CheckStep.RESOLVE,
            True,
        ),
        (
            socket.gaierror(socket.EAI_AGAIN, "later"),
            ChannelState.RESOLVING,
            CheckStep.RESOLVE,
            True,
        ),
        (ConnectionRefusedError(111, "refused"), ChannelState.CONNECTING, CheckStep.CONNECT, True),
        (TimeoutError("no connection"), ChannelState.CONNECTING, CheckStep.CONNECT, True),
        (OSError(113, "No route to host"), ChannelState.CONNECTING, CheckStep.CONNECT, True),
    ],
)
def test_error_is_attributed_to_its_step(
    error: Exception, state: ChannelState, step: CheckStep, is_local: bool
) -> None:
    finding = failure(error, state)
    assert (finding.step, finding.is_local) == (step, is_local)


@pytest.mark.parametrize(
    ("error", "is_local"),
    [
        (AuthenticationError("rejected", kafka_error="SASL_AUTHENTICATION_FAILED"), False),
        (AuthenticationError("no ticket"), True),
        (TlsError("the certificate is not trusted"), True),
        (TlsBytesError("TLS"), False),
        (OtherProtocolError("HTTP"), True),
    ],
)
def test_broker_response_applies_to_every_host(error: Exception, is_local: bool) -> None:
    assert failure(error, ChannelState.NEGOTIATING).is_local is is_local


def test_one_unresponsive_server_makes_it_uncertain() -> None:
    refused = failure(AuthenticationError("rejected", kafka_error="X"), ChannelState.AUTHENTICATING)
    silent = failure(TimeoutError("no connection"), ChannelState.CONNECTING)
    assert not unreachable_finding([refused, refused], 2).is_local
    both = unreachable_finding([refused, silent], 2)
    assert both.is_local
    assert "rejected" in both.text
    assert "no connection" in both.text
