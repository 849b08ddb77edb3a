"""Diagnosis of a closed connection."""

import ssl

import pytest

from spark_kafka_sink.common.errors import (
    AuthenticationError,
    BrokerUnavailableError,
    ConfigError,
    ProtocolError,
    TlsError,
)
from spark_kafka_sink.config.security.security_config import (
    SecurityConfig,
    SecurityProtocol,
    TlsConfig,
)
from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.diagnosis import Circumstances, FailureKind, diagnose
from spark_kafka_sink.kafka.protocol.frame import FrameReader, TlsBytesError

GONE = ConnectionResetError("the broker closed the connection")
PLAIN = SecurityProtocol.PLAINTEXT
SSL = SecurityProtocol.SSL
SASL = SecurityProtocol.SASL_PLAINTEXT
BOTH = SecurityProtocol.SASL_SSL


def at(
    protocol: SecurityProtocol,
    state: ChannelState,
    *,
    has_responded: bool = False,
    waiting: bool = True,
    is_accepted: bool = False,
) -> Circumstances:
    return Circumstances(
        broker="b:9",
        security=SecurityConfig(protocol=protocol, tls=TlsConfig() if protocol.uses_tls else None),
        state=state,
        has_responded=has_responded,
        is_waiting=waiting,
        is_accepted=is_accepted,
    )


def tls_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("protocol", "state", "says", "kind"),
    [
        (PLAIN, ChannelState.NEGOTIATING, "kafka.security.protocol=SSL", BrokerUnavailableError),
        (
            SASL,
            ChannelState.NEGOTIATING,
            "kafka.security.protocol=SASL_SSL",
            BrokerUnavailableError,
        ),
        (SSL, ChannelState.TLS_HANDSHAKE, "kafka.security.protocol=PLAINTEXT", TlsError),
        (BOTH, ChannelState.TLS_HANDSHAKE, "kafka.security.protocol=SASL_PLAINTEXT", TlsError),
        (SSL, ChannelState.NEGOTIATING, "kafka.ssl.keystore.location", TlsError),
        (PLAIN, ChannelState.READY, "kafka.security.protocol=SASL_PLAINTEXT", AuthenticationError),
        (SSL, ChannelState.READY, "kafka.security.protocol=SASL_SSL", AuthenticationError),
        (SASL, ChannelState.SASL_HANDSHAKE, "kafka.sasl.mechanism", AuthenticationError),
        (BOTH, ChannelState.AUTHENTICATING, "kafka.security.protocol", AuthenticationError),
    ],
)
@pytest.mark.parametrize("error", [GONE, ConnectionResetError(104, "Connection reset by peer")])
def test_server_that_closes_where_brokers_do_not(
    protocol: SecurityProtocol, state: ChannelState, says: str, kind: type, error: OSError
) -> None:
    diagnosis = diagnose(error, at(protocol, state))
    assert says in diagnosis.reason
    assert diagnosis.kind is FailureKind.MISMATCH
    assert isinstance(diagnosis.error, kind)
    assert "b:9" in str(diagnosis.error)


@pytest.mark.parametrize(
    "circumstances",
    [
        at(PLAIN, ChannelState.CONNECTING),
        at(PLAIN, ChannelState.READY, waiting=False),
        at(PLAIN, ChannelState.READY, is_accepted=True, has_responded=True),
        at(PLAIN, ChannelState.READY, is_accepted=True),
        at(SASL, ChannelState.READY),
        at(SASL, ChannelState.DRAINING),
        at(BOTH, ChannelState.RESOLVING),
    ],
)
def test_ordinary_disconnect(circumstances: Circumstances) -> None:
    diagnosis = diagnose(GONE, circumstances)
    assert (diagnosis.reason, diagnosis.kind) == (str(GONE), FailureKind.TEMPORARY)


@pytest.mark.parametrize("state", list(ChannelState))
def test_timeout_is_never_fatal(state: ChannelState) -> None:
    assert diagnose(TimeoutError("too late"), at(BOTH, state)).kind is FailureKind.TEMPORARY


@pytest.mark.parametrize("reason", ["WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG"])
def test_port_without_tls(reason: str) -> None:
    diagnosis = diagnose(tls_error(reason), at(BOTH, ChannelState.TLS_HANDSHAKE))
    assert diagnosis.kind is FailureKind.REJECTED
    assert "does not use TLS" in diagnosis.reason
    assert "kafka.security.protocol" in diagnosis.reason


def test_alert_after_the_handshake_is_fatal() -> None:
    error = tls_error("TLSV13_ALERT_CERTIFICATE_REQUIRED")
    diagnosis = diagnose(error, at(SSL, ChannelState.NEGOTIATING))
    assert diagnosis.kind is FailureKind.REJECTED
    assert isinstance(diagnosis.error, TlsError)


def test_damaged_record_in_the_stream_is_transient() -> None:
    error = tls_error("DECRYPTION_FAILED_OR_BAD_RECORD_MAC")
    diagnosis = diagnose(error, at(SSL, ChannelState.READY, has_responded=True, is_accepted=True))
    assert diagnosis.kind is FailureKind.TEMPORARY
    assert "DECRYPTION_FAILED" in diagnosis.reason


def test_tls_alert_to_a_plaintext_client() -> None:
    with pytest.raises(ProtocolError) as seen:
        FrameReader(1024).feed(b"\x15\x03\x03\x00\x02\x02\x28")
    diagnosis = diagnose(seen.value, at(PLAIN, ChannelState.NEGOTIATING))
    assert diagnosis.kind is FailureKind.REJECTED
    assert isinstance(diagnosis.error, BrokerUnavailableError)
    assert "kafka.security.protocol=SSL" in diagnosis.reason
    diagnosis = diagnose(seen.value, at(SASL, ChannelState.NEGOTIATING))
    assert "kafka.security.protocol=SASL_SSL" in diagnosis.reason


def test_http_server() -> None:
    with pytest.raises(ProtocolError) as seen:
        FrameReader(1024).feed(b"HTTP/1.1 400 Bad Request")
    diagnosis = diagnose(seen.value, at(PLAIN, ChannelState.NEGOTIATING))
    assert diagnosis.kind is FailureKind.MISMATCH  # a proxy may do so until its broker is up
    assert "web server" in diagnosis.reason


def test_oversized_frame_is_not_a_rejection() -> None:
    with pytest.raises(ProtocolError) as seen:
        FrameReader(1024).feed(b"\x01\x03\x03\x00")
    assert diagnose(seen.value, at(PLAIN, ChannelState.NEGOTIATING)).kind is FailureKind.TEMPORARY


@pytest.mark.parametrize(
    "error", [AuthenticationError("no", broker="proxy:1"), ConfigError("no file")]
)
def test_rejection_names_the_broker_once(error: AuthenticationError | ConfigError) -> None:
    diagnosis = diagnose(error, at(SASL, ChannelState.AUTHENTICATING))
    assert diagnosis.kind is FailureKind.REJECTED
    assert diagnosis.error is not None
    assert diagnosis.error.broker == (error.broker or "b:9")
    assert type(diagnosis.error) is type(error)
    assert "broker=" not in diagnosis.reason


@pytest.mark.parametrize("protocol", [SSL, BOTH])
@pytest.mark.parametrize("error", [GONE, tls_error("WRONG_VERSION_NUMBER")])
def test_disabling_encryption_is_the_last_hint_and_explains_the_consequence(
    protocol: SecurityProtocol, error: OSError
) -> None:
    reason = diagnose(error, at(protocol, ChannelState.TLS_HANDSHAKE)).reason
    places = [reason.index(words) for words in ("Use the port", "unencrypted", "PLAINTEXT")]
    assert places == sorted(places)


def test_plaintext_client_is_not_sent_to_an_unencrypted_listener() -> None:
    diagnosis = diagnose(TlsBytesError("TLS"), at(SASL, ChannelState.NEGOTIATING))
    assert "kafka.security.protocol=SASL_SSL" in diagnosis.reason
    assert "without TLS" not in diagnosis.reason
