"""SCRAM: the RFC's test vectors, and dishonest brokers."""

import hashlib
from base64 import b64encode
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.config.security.security_config import Mechanism
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from spark_kafka_sink.kafka.security.sasl.scram import (
    MAX_ITERATIONS,
    SaltedPasswords,
    scram_exchange,
)
from tests.support.logins import password_login

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="
SERVER_FIRST = f"r={NONCE}{SERVER_NONCE},s={SALT},i=4096".encode()
BOTH = pytest.mark.parametrize("mechanism", [Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512])
HOSTILE = settings(max_examples=300, deadline=None, database=None)


def exchange(mechanism: Mechanism = Mechanism.SCRAM_SHA_256, **kwargs: Any) -> SaslExchange:
    login = password_login("user", "pencil", **kwargs)
    return scram_exchange(mechanism, login, nonce=NONCE, salted_passwords=SaltedPasswords())


def begun(mechanism: Mechanism = Mechanism.SCRAM_SHA_256) -> SaslExchange:
    client = exchange(mechanism)
    client.initial_response()
    return client


def proven(mechanism: Mechanism = Mechanism.SCRAM_SHA_256) -> SaslExchange:
    client = begun(mechanism)
    client.next_response(SERVER_FIRST)
    return client


def test_vector_of_rfc_7677() -> None:
    scram = exchange()
    assert scram.mechanism == "SCRAM-SHA-256"
    assert scram.initial_response() == f"n,,n=user,r={NONCE}".encode()
    assert scram.next_response(SERVER_FIRST) == (
        f"c=biws,r={NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    )
    assert scram.next_response(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


def test_nonces_differ() -> None:
    login = password_login("user", "pencil")
    messages = {
        scram_exchange(Mechanism.SCRAM_SHA_512, login).initial_response() for _ in range(50)
    }
    assert len(messages) == 50


def test_names_are_not_normalized_as_in_kafka() -> None:
    client = scram_exchange(Mechanism.SCRAM_SHA_256, password_login("\u2168\u00ad", "x"), nonce="n")
    assert client.initial_response() == "n,,n=\u2168\u00ad,r=n".encode()


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        (SERVER_FIRST.replace(NONCE.encode(), b"otherNonceOfSomebody"), "does not start with"),
        (f"r={NONCE},s={SALT},i=4096".encode(), "does not start with"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "fewer"),
        (SERVER_FIRST.replace(b"4096", b"0"), "fewer"),
        (SERVER_FIRST.replace(b"4096", str(MAX_ITERATIONS + 1).encode()), "more than"),
        (SERVER_FIRST.replace(b"4096", b"9" * 5_000), "more than"),
        (SERVER_FIRST.replace(b"4096", b"-4096"), "malformed"),
        (SERVER_FIRST.replace(b"4096", "٤٠٩٦".encode()), "malformed"),
        (SERVER_FIRST.replace(b"i=", b"j="), "malformed"),
        (SERVER_FIRST.replace(SALT.encode(), b""), "malformed"),
        (SERVER_FIRST.replace(SALT.encode(), b"abc"), "not base64"),
        (b"m=ext," + SERVER_FIRST, "extension"),
        (b"e=unknown-user", "unknown-user"),
        (b"e=" + b"\n\x1b[31m" * 5_000, "rejected"),
        (b"", "malformed"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * 100_000, "100,000 bytes"),
        (SERVER_FIRST + b"\n", "malformed"),
    ],
)
def test_challenge_is_rejected(challenge: bytes, expected: str) -> None:
    with pytest.raises(AuthenticationError, match=expected) as caught:
        begun().next_response(challenge)
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()
    assert "pencil" not in str(caught.value)


def test_optional_extensions_are_ignored_and_signed() -> None:
    first = begun().next_response(SERVER_FIRST)
    assert begun().next_response(SERVER_FIRST + b",x=y") != first


@BOTH
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (b"v=" + b64encode(bytes(32)), "signature is wrong"),
        (b"v=" + b64encode(bytes(64)), "signature is wrong"),
        (b"v=6rri", "signature is wrong"),
        (b"v=", "malformed"),
        (b"v=a", "not base64"),
        (b"e=invalid-proof", "invalid-proof"),
        (SERVER_FIRST, "malformed"),
        (b"", "malformed"),
    ],
)
def test_broker_that_cannot_prove_its_identity(
    mechanism: Mechanism, message: bytes, expected: str
) -> None:
    with pytest.raises(AuthenticationError, match=expected):
        proven(mechanism).next_response(message)


def test_message_after_the_end_is_rejected() -> None:
    scram = proven()
    scram.next_response(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(AuthenticationError, match="after its end"):
        scram.next_response(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_wrong_signature_is_final() -> None:
    scram = proven()
    with pytest.raises(AuthenticationError):
        scram.next_response(b"v=6rri")
    with pytest.raises(AuthenticationError):
        scram.next_response(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@HOSTILE
@given(challenge=st.binary(max_size=300))
def test_garbage_challenge_is_rejected(challenge: bytes) -> None:
    with pytest.raises(AuthenticationError):
        begun().next_response(challenge)


@HOSTILE
@given(message=st.binary(max_size=300) | st.binary(max_size=90).map(lambda b: b"v=" + b64encode(b)))
def test_garbage_signature_is_rejected(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        proven().next_response(message)


@HOSTILE
@given(data=st.data())
def test_mutated_challenge_is_parsed_or_rejected(data: st.DataObject) -> None:
    challenge = bytearray(SERVER_FIRST)
    at = data.draw(st.integers(0, len(challenge)))
    challenge[at : at + data.draw(st.integers(0, 4))] = data.draw(
        st.binary(max_size=4) | st.sampled_from([b",", b"=", b"m=x,", b"99"])
    )
    try:
        answer = begun().next_response(bytes(challenge))
    except AuthenticationError:
        return
    assert answer is not None
    assert answer.startswith(f"c=biws,r={NONCE}".encode())


def test_password_is_hashed_once_for_many_connections() -> None:
    kept = SaltedPasswords()
    with patch("hashlib.pbkdf2_hmac", wraps=hashlib.pbkdf2_hmac) as hash_password:
        salted = [kept.salted("sha512", b"pencil", b"salt", 4_096) for _ in range(100)]
    assert len(set(salted)) == hash_password.call_count == 1


def test_cache_key_contains_all_inputs() -> None:
    kept = SaltedPasswords()
    salted = {
        kept.salted(*what)
        for what in [
            ("sha256", b"pencil", b"salt", 4_096),
            ("sha512", b"pencil", b"salt", 4_096),
            ("sha256", b"pencil2", b"salt", 4_096),
            ("sha256", b"pencil", b"salt2", 4_096),
            ("sha256", b"2pencil", b"salt", 4_096),
            ("sha256", b"pencil", b"salt", 4_097),
        ]
    }
    assert len(salted) == 6


def test_oldest_salted_password_is_evicted() -> None:
    kept = SaltedPasswords()
    first = kept.salted("sha256", b"pencil", b"0", 4_096)
    for number in range(1, 40):
        kept.salted("sha256", b"pencil", str(number).encode(), 4_096)
    again = kept.salted("sha256", b"pencil", b"0", 4_096)
    assert again == first
    assert again is not first


@pytest.mark.parametrize("name", ["", "a\udcff"])
def test_invalid_user_name(name: str) -> None:
    with pytest.raises(ConfigError, match=r"kafka\.sasl\.username"):
        scram_exchange(Mechanism.SCRAM_SHA_256, password_login(name, "x")).initial_response()
