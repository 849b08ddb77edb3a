"""GSSAPI login against an acceptor of MIT's library, with tickets from a real KDC."""

import os
from collections.abc import Iterator
from pathlib import Path

import gssapi
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.config.security.security_config import KerberosLogin, Mechanism, SaslConfig
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from tests.support.security.kerberos import HOST, REALM, SERVICE, Kdc

HOSTILE = settings(
    max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
LAYERS = bytes([1, 0, 0, 0])


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    realm = Kdc(tmp_path_factory.mktemp("kerberos") / "realm", ["alice"])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        patch.setenv("KRB5CCNAME", f"FILE:{tmp_path_factory.getbasetemp() / 'nobodys-cache'}")
        patch.setenv("KRB5RCACHENAME", "none:")  # disable the replay cache of the acceptor
        realm.start()
        try:
            yield realm
        finally:
            realm.close()


class Acceptor:
    """The broker's side; accepts all principals in its keytab."""

    def __init__(self, kdc: Kdc) -> None:
        credentials = gssapi.Credentials(usage="accept", store={"keytab": str(kdc.service_keytab)})
        self.context = gssapi.SecurityContext(creds=credentials, usage="accept")

    def accept(self, token: bytes) -> bytes:
        return self.context.step(token) or b""

    def wrap(self, message: bytes) -> bytes:
        return bytes(self.context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        return bytes(self.context.unwrap(message).message)


def keytab_login(kdc: Kdc, **settings: str) -> KerberosLogin:
    options = {"service_name": SERVICE, "principal": "alice", "keytab": str(kdc.keytab("alice"))}
    return KerberosLogin(**(options | settings))


def exchange(login: KerberosLogin, host: str = HOST) -> SaslExchange:
    return exchange_for(SaslConfig(mechanism=Mechanism.GSSAPI, login=login), host)


def with_context(kdc: Kdc) -> tuple[SaslExchange, Acceptor]:
    """Return both sides with an established context, before the broker offers security layers."""
    initiator, acceptor = exchange(keytab_login(kdc)), Acceptor(kdc)
    assert initiator.next_response(acceptor.accept(initiator.initial_response())) == b""
    return initiator, acceptor


def log_in(kdc: Kdc, login: KerberosLogin) -> Acceptor:
    initiator, acceptor = exchange(login), Acceptor(kdc)
    assert initiator.mechanism == "GSSAPI"
    assert initiator.next_response(acceptor.accept(initiator.initial_response())) == b""
    chosen = initiator.next_response(acceptor.wrap(LAYERS))
    assert chosen is not None
    assert acceptor.unwrap(chosen) == LAYERS + f"alice@{REALM}".encode()
    assert initiator.next_response(b"") is None
    assert str(acceptor.context.initiator_name) == f"alice@{REALM}"
    return acceptor


def test_login_with_a_keytab(kdc: Kdc) -> None:
    log_in(kdc, keytab_login(kdc))


def test_keytab_without_principal(kdc: Kdc) -> None:
    log_in(kdc, KerberosLogin(service_name=SERVICE, keytab=str(kdc.keytab("alice"))))


def test_login_with_a_ticket_cache(kdc: Kdc, tmp_path: Path) -> None:
    kdc.log_in("alice", tmp_path / "cache")
    log_in(kdc, KerberosLogin(service_name=SERVICE, ticket_cache=str(tmp_path / "cache")))


def test_default_ticket_cache(kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kdc.log_in("alice", tmp_path / "cache")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    log_in(kdc, KerberosLogin(service_name=SERVICE))


def test_ticket_is_reused_without_kdc(kdc: Kdc, tmp_path: Path) -> None:
    realm = Kdc(tmp_path / "other", ["alice"])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        realm.start()
        try:
            log_in(realm, keytab_login(realm))
        finally:
            realm.close()
        log_in(realm, keytab_login(realm))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"service_name": "nobody"}, "nobody/localhost.*not found in Kerberos database"),
        ({"principal": "bob"}, "with the keytab .* as bob"),
    ],
)
def test_no_ticket_with_keytab(kdc: Kdc, settings: dict[str, str], expected: str) -> None:
    with pytest.raises(AuthenticationError, match=expected):
        exchange(keytab_login(kdc, **settings)).initial_response()


def test_host_without_principal(kdc: Kdc) -> None:
    with pytest.raises(AuthenticationError, match="kafka/elsewhere"):
        exchange(keytab_login(kdc), "elsewhere").initial_response()


def test_missing_ticket_is_reported(kdc: Kdc) -> None:
    with pytest.raises(AuthenticationError, match="the system's ticket cache"):
        exchange(KerberosLogin(service_name=SERVICE)).initial_response()


def test_missing_keytab_is_reported(kdc: Kdc) -> None:
    with pytest.raises(ConfigError, match=f"cannot be read on {os.uname().nodename}"):
        exchange(keytab_login(kdc, keytab="/no/such.keytab")).initial_response()


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (bytes([6, 0, 255, 255]), "requires a GSSAPI security layer"),
        (b"", "malformed"),
        (bytes([1]), "malformed"),
        (bytes(5_000), "malformed"),
    ],
)
def test_invalid_security_layers(kdc: Kdc, layers: bytes, expected: str) -> None:
    initiator, acceptor = with_context(kdc)
    with pytest.raises(AuthenticationError, match=expected):
        initiator.next_response(acceptor.wrap(layers))


def test_unsigned_security_layers(kdc: Kdc) -> None:
    initiator, _ = with_context(kdc)
    with pytest.raises(AuthenticationError, match="GSSAPI message is invalid"):
        initiator.next_response(LAYERS)


def test_replayed_response_is_rejected(kdc: Kdc) -> None:
    replayed = Acceptor(kdc).accept(exchange(keytab_login(kdc)).initial_response())
    initiator = exchange(keytab_login(kdc))
    initiator.initial_response()
    with pytest.raises(AuthenticationError):
        initiator.next_response(replayed)


def test_oversized_message_is_rejected(kdc: Kdc) -> None:
    initiator, _ = with_context(kdc)
    with pytest.raises(AuthenticationError, match="1,000,000 bytes"):
        initiator.next_response(bytes(1_000_000))


@HOSTILE
@given(challenge=st.binary(max_size=300))
def test_random_bytes_instead_of_a_context_are_rejected(kdc: Kdc, challenge: bytes) -> None:
    initiator = exchange(keytab_login(kdc))
    initiator.initial_response()
    with pytest.raises(AuthenticationError):
        initiator.next_response(challenge)


@HOSTILE
@given(location=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_mutated_response_is_rejected_or_has_no_effect(
    kdc: Kdc, location: float, change: int
) -> None:
    """Some bytes around the token are ignored."""
    initiator, acceptor = exchange(keytab_login(kdc)), Acceptor(kdc)
    response = bytearray(acceptor.accept(initiator.initial_response()))
    response[int(location * len(response))] ^= change
    try:
        assert initiator.next_response(bytes(response)) == b""
    except AuthenticationError:
        return
    chosen = initiator.next_response(acceptor.wrap(LAYERS))
    assert chosen is not None
    assert acceptor.unwrap(chosen).startswith(LAYERS)


@HOSTILE
@given(challenge=st.binary(max_size=300))
def test_random_bytes_instead_of_layers_are_rejected(kdc: Kdc, challenge: bytes) -> None:
    initiator, _ = with_context(kdc)
    with pytest.raises(AuthenticationError):
        initiator.next_response(challenge)
