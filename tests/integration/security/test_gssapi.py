"""GSSAPI's client side against an acceptor of MIT's library, with tickets from a real KDC."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import gssapi
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.config.security.model import KerberosLogin, Mechanism, SaslConfig
from spark_kafka_sink.security.sasl.factory import exchange_for
from tests.support.security.kerberos import HOST, REALM, SERVICE, Kdc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_kafka_sink.security.sasl.exchange import SaslExchange

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
        patch.setenv("KRB5RCACHENAME", "none:")  # the acceptor's list of what it has seen
        realm.start()
        try:
            yield realm
        finally:
            realm.close()


class Acceptor:
    """The broker's side: any of its principals, as its keytab has them."""

    def __init__(self, kdc: Kdc) -> None:
        held = gssapi.Credentials(usage="accept", store={"keytab": str(kdc.service_keytab)})
        self.context = gssapi.SecurityContext(creds=held, usage="accept")

    def accept(self, token: bytes) -> bytes:
        return self.context.step(token) or b""

    def wrap(self, message: bytes) -> bytes:
        return bytes(self.context.wrap(message, False).message)

    def unwrap(self, message: bytes) -> bytes:
        return bytes(self.context.unwrap(message).message)


def by_keytab(kdc: Kdc, **settings: str) -> KerberosLogin:
    given = {"service_name": SERVICE, "principal": "alice", "keytab": str(kdc.keytab("alice"))}
    return KerberosLogin(**(given | settings))


def exchange(login: KerberosLogin, host: str = HOST) -> SaslExchange:
    return exchange_for(SaslConfig(mechanism=Mechanism.GSSAPI, login=login), host)


def with_context(kdc: Kdc) -> tuple[SaslExchange, Acceptor]:
    """Both sides where the broker offers its layers next."""
    ours, theirs = exchange(by_keytab(kdc)), Acceptor(kdc)
    assert ours.answer(theirs.accept(ours.first())) == b""
    return ours, theirs


def enter(kdc: Kdc, login: KerberosLogin) -> Acceptor:
    ours, theirs = exchange(login), Acceptor(kdc)
    assert ours.mechanism == "GSSAPI"
    assert ours.answer(theirs.accept(ours.first())) == b""
    chosen = ours.answer(theirs.wrap(LAYERS))
    assert chosen is not None
    assert theirs.unwrap(chosen) == LAYERS + f"alice@{REALM}".encode()
    assert ours.answer(b"") is None
    assert str(theirs.context.initiator_name) == f"alice@{REALM}"
    return theirs


def test_by_keytab(kdc: Kdc) -> None:
    enter(kdc, by_keytab(kdc))


def test_by_keytab_without_a_principal(kdc: Kdc) -> None:
    enter(kdc, KerberosLogin(service_name=SERVICE, keytab=str(kdc.keytab("alice"))))


def test_by_ticket_cache(kdc: Kdc, tmp_path: Path) -> None:
    kdc.log_in("alice", tmp_path / "cache")
    enter(kdc, KerberosLogin(service_name=SERVICE, ticket_cache=str(tmp_path / "cache")))


def test_by_the_systems_ticket_cache(
    kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kdc.log_in("alice", tmp_path / "cache")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    enter(kdc, KerberosLogin(service_name=SERVICE))


def test_a_ticket_serves_later_logins(kdc: Kdc, tmp_path: Path) -> None:
    """A KDC that has gone in the meantime is not missed."""
    realm = Kdc(tmp_path / "other", ["alice"])
    with pytest.MonkeyPatch.context() as patch:
        for name, value in realm.environment.items():
            patch.setenv(name, value)
        realm.start()
        try:
            enter(realm, by_keytab(realm))
        finally:
            realm.close()
        enter(realm, by_keytab(realm))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"service_name": "nobody"}, "nobody/localhost.*not found in Kerberos database"),
        ({"principal": "bob"}, "with the keytab .* as bob"),
    ],
)
def test_no_ticket_by_keytab(kdc: Kdc, settings: dict[str, str], says: str) -> None:
    with pytest.raises(AuthenticationError, match=says):
        exchange(by_keytab(kdc, **settings)).first()


def test_a_host_without_a_principal(kdc: Kdc) -> None:
    with pytest.raises(AuthenticationError, match="kafka/elsewhere"):
        exchange(by_keytab(kdc), "elsewhere").first()


def test_no_ticket_at_all(kdc: Kdc) -> None:
    with pytest.raises(AuthenticationError, match="the system's ticket cache"):
        exchange(KerberosLogin(service_name=SERVICE)).first()


def test_a_missing_keytab_names_the_host(kdc: Kdc) -> None:
    with pytest.raises(ConfigError, match=f"cannot be read on {os.uname().nodename}"):
        exchange(by_keytab(kdc, keytab="/no/such.keytab")).first()


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        (bytes([6, 0, 255, 255]), "requires a GSSAPI security layer"),
        (b"", "malformed"),
        (bytes([1]), "malformed"),
        (bytes(5_000), "malformed"),
    ],
)
def test_layers_that_are_none(kdc: Kdc, layers: bytes, says: str) -> None:
    ours, theirs = with_context(kdc)
    with pytest.raises(AuthenticationError, match=says):
        ours.answer(theirs.wrap(layers))


def test_layers_that_nobody_signed(kdc: Kdc) -> None:
    ours, _ = with_context(kdc)
    with pytest.raises(AuthenticationError, match="GSSAPI message is invalid"):
        ours.answer(LAYERS)


def test_an_answer_to_another_login(kdc: Kdc) -> None:
    replayed = Acceptor(kdc).accept(exchange(by_keytab(kdc)).first())
    ours = exchange(by_keytab(kdc))
    ours.first()
    with pytest.raises(AuthenticationError, match="GSSAPI message is invalid"):
        ours.answer(replayed)


def test_a_message_of_a_megabyte(kdc: Kdc) -> None:
    ours, _ = with_context(kdc)
    with pytest.raises(AuthenticationError, match="1,000,000 bytes"):
        ours.answer(bytes(1_000_000))


@HOSTILE
@given(challenge=st.binary(max_size=300))
def test_garbage_is_refused_in_place_of_a_context(kdc: Kdc, challenge: bytes) -> None:
    ours = exchange(by_keytab(kdc))
    ours.first()
    with pytest.raises(AuthenticationError):
        ours.answer(challenge)


@HOSTILE
@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_mutated_answer_is_refused_or_changes_nothing(
    kdc: Kdc, place: float, change: int
) -> None:
    """Not every byte of the answer's envelope has a meaning."""
    ours, theirs = exchange(by_keytab(kdc)), Acceptor(kdc)
    answer = bytearray(theirs.accept(ours.first()))
    answer[int(place * len(answer))] ^= change
    try:
        assert ours.answer(bytes(answer)) == b""
    except AuthenticationError:
        return
    chosen = ours.answer(theirs.wrap(LAYERS))
    assert chosen is not None
    assert theirs.unwrap(chosen).startswith(LAYERS)


@HOSTILE
@given(challenge=st.binary(max_size=300))
def test_garbage_is_refused_in_place_of_layers(kdc: Kdc, challenge: bytes) -> None:
    ours, _ = with_context(kdc)
    with pytest.raises(AuthenticationError):
        ours.answer(challenge)
