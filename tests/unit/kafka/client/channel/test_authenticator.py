"""The order of login messages, with a scripted exchange."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.config.security.security_config import Mechanism
from spark_kafka_sink.kafka.client.channel.authenticator import Authenticator, SaslLogin
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange, request_type
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.security.sasl.exchange import Messages

VERSIONS = {
    int(ApiKey.SASL_HANDSHAKE): VersionRange(0, 1),
    int(ApiKey.SASL_AUTHENTICATE): VersionRange(0, 2),
}
NONE = ErrorCode.none
UNSUPPORTED_MECHANISM = ErrorCode.unsupported_sasl_mechanism
ILLEGAL_STATE = ErrorCode.illegal_sasl_state
FAILED = ErrorCode.sasl_authentication_failed


class Script(SaslExchange):
    """An exchange with given messages."""

    def __init__(self, *messages: bytes, mechanism: str = "SCRAM-SHA-256") -> None:
        super().__init__(mechanism, self._yield(messages))
        self.challenges: list[bytes] = []

    def _yield(self, messages: tuple[bytes, ...]) -> Messages:
        for message in messages:
            self.challenges.append((yield message))


def authenticator(
    script: Script, mechanism: Mechanism = Mechanism.SCRAM_SHA_256, **versions: VersionRange
) -> Authenticator:
    announced = {int(ApiKey[name.upper()]): span for name, span in versions.items()}
    return Authenticator(SaslLogin(mechanism, lambda: script), announced or VERSIONS)


def handshake_answer(code: int = NONE, mechanisms: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(error_code=code, mechanisms=mechanisms)


def answer(auth_bytes: bytes = b"", code: int = NONE, message: str | None = None) -> Any:
    return SimpleNamespace(
        error_code=code, error_message=message, auth_bytes=memoryview(auth_bytes)
    )


def step(login: Authenticator) -> bytes | None:
    pending_step = login.take_step()
    assert pending_step is not None
    assert login.take_step() is None
    return pending_step()


def decoded(request: Any) -> Any:
    kind = request_type(request.api, request.version)
    return decode(kind, memoryview(b"".join(request.body)))[0]


def test_login_with_several_messages() -> None:
    script = Script(b"first", b"proof")
    login = authenticator(script)
    handshake = login.resume(step(login))
    assert handshake is not None
    assert (handshake.api, handshake.version) == (ApiKey.SASL_HANDSHAKE, 1)
    assert decoded(handshake).mechanism == "SCRAM-SHA-256"
    first = login.handle_handshake(handshake_answer())
    assert (first.api, first.version) == (ApiKey.SASL_AUTHENTICATE, 2)
    assert decoded(first).auth_bytes == b"first"
    assert login.take_step() is None  # waiting for the broker
    login.handle_authenticate(answer(b"salt"))
    proof = login.resume(step(login))
    assert proof is not None
    assert decoded(proof).auth_bytes == b"proof"
    login.handle_authenticate(answer(b"signature"))
    assert login.resume(step(login)) is None
    assert script.challenges == [b"salt", b"signature"]
    assert {type(challenge) for challenge in script.challenges} == {bytes}
    assert login.lifetime == 0.0


def test_last_response_contains_the_session_lifetime() -> None:
    login = authenticator(Script(b"first"))
    login.resume(step(login))
    login.handle_handshake(handshake_answer())
    response = answer()
    response.session_lifetime = timedelta(seconds=7.5)
    login.handle_authenticate(response)
    assert login.lifetime == 7.5


def test_repr_contains_no_message() -> None:
    login = authenticator(Script(b"hush"))
    request = login.resume(step(login))
    assert "hush" not in repr(request) + repr(login.handle_handshake(handshake_answer()))


def test_unsupported_mechanism_error_names_the_supported_ones() -> None:
    login = authenticator(Script(b"first"))
    login.resume(step(login))
    with pytest.raises(AuthenticationError, match="GSSAPI, PLAIN") as seen:
        login.handle_handshake(handshake_answer(UNSUPPORTED_MECHANISM, ("PLAIN", "GSSAPI")))
    assert seen.value.kafka_error == "UNSUPPORTED_SASL_MECHANISM"
    assert "kafka.sasl.mechanism" in str(seen.value)


def test_listener_without_sasl() -> None:
    login = authenticator(Script(b"first"))
    login.resume(step(login))
    with pytest.raises(AuthenticationError, match=r"does not use SASL.*kafka\.security\.proto"):
        login.handle_handshake(handshake_answer(ILLEGAL_STATE))
    with pytest.raises(AuthenticationError) as caught:
        login.handle_handshake(handshake_answer(-1))
    assert caught.value.kafka_error == "UNKNOWN_SERVER_ERROR"


@pytest.mark.parametrize(
    ("mechanism", "wire", "name", "check"),
    [
        (Mechanism.PLAIN, "PLAIN", "PLAIN", "kafka.sasl.password"),
        (Mechanism.SCRAM_SHA_512, "SCRAM-SHA-512", "SCRAM-SHA-512", "kafka.sasl.jaas.config"),
        (Mechanism.OAUTHBEARER, "OAUTHBEARER", "OAUTHBEARER", "audience"),
        (Mechanism.AWS_MSK_IAM, "OAUTHBEARER", "AWS_MSK_IAM (as OAUTHBEARER)", "kafka-cluster"),
        (Mechanism.GSSAPI, "GSSAPI", "GSSAPI", "kafka.sasl.kerberos.service.name"),
    ],
)
def test_rejection_contains_the_brokers_message(
    mechanism: Mechanism, wire: str, name: str, check: str
) -> None:
    login = authenticator(Script(b"first", mechanism=wire), mechanism)
    login.resume(step(login))
    login.handle_handshake(handshake_answer())
    with pytest.raises(AuthenticationError) as seen:
        login.handle_authenticate(answer(code=FAILED, message="no such\nuser"))
    assert f"SASL mechanism {name}: no such\ufffduser" in str(seen.value)
    assert check in str(seen.value)
    assert seen.value.kafka_error == "SASL_AUTHENTICATION_FAILED"


@pytest.mark.parametrize("mechanism", Mechanism)
def test_rejection_with_every_mechanism_has_a_hint(mechanism: Mechanism) -> None:
    script = Script(b"first")
    login = authenticator(script, mechanism)
    login.resume(step(login))
    login.handle_handshake(handshake_answer())
    with pytest.raises(AuthenticationError) as seen:
        login.handle_authenticate(answer(code=FAILED))
    assert seen.value.hint
    with pytest.raises(AuthenticationError, match="after its end"):
        script.next_response(b"")


class FailingScript(Script):
    """Fails without naming the mechanism, after the given messages."""

    def _yield(self, messages: tuple[bytes, ...]) -> Messages:
        yield from super()._yield(messages)
        raise AuthenticationError("no token", kafka_error="WHAT", hint="Get one.") from KeyError(
            "x"
        )


@pytest.mark.parametrize("messages", [(), (b"first",)], ids=["first", "answer"])
@pytest.mark.parametrize("mechanism", [Mechanism.OAUTHBEARER, Mechanism.AWS_MSK_IAM])
def test_client_side_errors_name_the_mechanism(
    mechanism: Mechanism, messages: tuple[bytes, ...]
) -> None:
    login = authenticator(FailingScript(*messages), mechanism)
    if messages:
        login.resume(step(login))
        login.handle_handshake(handshake_answer())
        login.handle_authenticate(answer(b"challenge"))
    with pytest.raises(AuthenticationError) as seen:
        step(login)
    assert str(seen.value) == f"SASL mechanism {mechanism.value}: no token [error=WHAT]. Get one."
    assert isinstance(seen.value.__cause__, KeyError)


def test_brokers_too_old_or_without_sasl() -> None:
    with pytest.raises(AuthenticationError, match="does not support SASL"):
        authenticator(Script(), metadata=VersionRange(0, 9))
    with pytest.raises(AuthenticationError, match=r"SASL_AUTHENTICATE.*Kafka 1\.0"):
        authenticator(Script(), sasl_handshake=VersionRange(0, 1))
    with pytest.raises(AuthenticationError) as caught:
        authenticator(
            Script(), sasl_handshake=VersionRange(0, 0), sasl_authenticate=VersionRange(0, 0)
        )
    assert caught.value.kafka_error == "UNSUPPORTED_VERSION"


@pytest.mark.parametrize(("highest", "version"), [(0, 0), (1, 1), (9, 2)])
def test_version_negotiation(highest: int, version: int) -> None:
    login = authenticator(
        Script(b"first"),
        sasl_handshake=VersionRange(0, 1),
        sasl_authenticate=VersionRange(0, highest),
    )
    login.resume(step(login))
    request = login.handle_handshake(handshake_answer())
    assert request.version == version
    assert decoded(request).auth_bytes == b"first"
