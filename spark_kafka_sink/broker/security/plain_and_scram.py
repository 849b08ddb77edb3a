"""The SASL mechanisms PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677), and the broker's users.

The broker does not store passwords, but only values that verify passwords. SCRAM is implemented as
in Kafka's ScramSaslServer. The client proves that it knows the password. The server proves that it
has the keys that were derived from the password. The stored keys do not reveal the password.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
import re
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.security.sasl_server import (
    SaslAuthenticationError,
    SaslServer,
    SaslServerError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash function by SCRAM mechanism (RFC 7677), with hashlib's name."""
MIN_SCRAM_ITERATIONS = 4096
"""Kafka's ScramMechanism.minIterations."""
_SALT_BYTES = 32
_NAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|[^\x00-\x7F]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2B\x2D-\x7E]+"
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_FIRST = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>(?:m=[^,\x00]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """The values that Kafka stores for SCRAM instead of a password (RFC 5802, section 3)."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of(cls, password: str, hash_name: str, iterations: int) -> ScramCredential:
        """Derive a credential from a password, with a new salt."""
        salt = os.urandom(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        return cls(
            salt=salt,
            stored_key=hashlib.new(hash_name, client_key).digest(),
            server_key=hmac.digest(salted, b"Server Key", hash_name),
            iterations=iterations,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _User:
    scram: Mapping[str, ScramCredential]
    password_mac: bytes = field(repr=False)


class Credentials:
    """The users of the broker.

    Thread-safe: users are replaced atomically.

    Args:
        iterations: number of iterations for SCRAM's key derivation.
    """

    def __init__(self, iterations: int = MIN_SCRAM_ITERATIONS) -> None:
        self._iterations = iterations
        self._key = os.urandom(_SALT_BYTES)
        self._users: dict[str, _User] = {}

    def set_password(self, user: str, password: str) -> None:
        """Add a user, or change a user's password."""
        scram = {
            mechanism: ScramCredential.of(password, hash_name, self._iterations)
            for mechanism, hash_name in HASHES.items()
        }
        self._users[user] = _User(scram=scram, password_mac=self._password_mac(password))

    def remove(self, user: str) -> None:
        """Remove a user. Has no effect if the user does not exist."""
        self._users.pop(user, None)

    def has_password(self, user: str, password: str) -> bool:
        """Return True if the user has this password. Takes the same time for unknown users."""
        credentials = self._users.get(user)
        expected = self._key if credentials is None else credentials.password_mac
        is_equal = hmac.compare_digest(expected, self._password_mac(password))
        return is_equal and credentials is not None

    def scram(self, user: str, mechanism: str) -> ScramCredential | None:
        """Return a user's credential for a SCRAM mechanism, or None if the user is unknown."""
        credentials = self._users.get(user)
        return None if credentials is None else credentials.scram[mechanism]

    def _password_mac(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode(), "sha256")


def _decode_utf8(response: bytes) -> str:
    try:
        return response.decode()
    except UnicodeDecodeError:
        raise SaslServerError("the message is not UTF-8") from None


def _check_authorization_id(authorization_id: str, user: str) -> None:
    if authorization_id not in {"", user}:
        raise SaslAuthenticationError(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )


class PlainSaslServer(SaslServer):
    """SASL/PLAIN: one message with authorization id, user and password, separated by NUL.

    Args:
        credentials: the users.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def evaluate(self, response: bytes) -> bytes:
        """See `SaslServer`."""
        tokens = _decode_utf8(response).split("\0")
        if len(tokens) != 3:
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}"
            )
        authorization_id, user, password = tokens
        if not user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        if not self._credentials.has_password(user, password):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        _check_authorization_id(authorization_id, user)
        self.is_complete = True
        self.user = user
        return b""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exchange:
    """The state of an exchange between the client's two messages."""

    user: str
    credential: ScramCredential
    nonce: str
    gs2: str
    messages: str
    """The client's first message without its GS2 header, and the server's first message."""


class ScramSaslServer(SaslServer):
    """SASL/SCRAM: two client messages and two server messages.

    Args:
        credentials: the users.
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        nonce: the server's part of the nonce, which is random by default.
    """

    def __init__(
        self, credentials: Credentials, mechanism: str, *, nonce: str | None = None
    ) -> None:
        self._credentials = credentials
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._nonce = secrets.token_urlsafe(24) if nonce is None else nonce
        self._exchange: _Exchange | None = None

    def evaluate(self, response: bytes) -> bytes:
        """See `SaslServer`."""
        text = _decode_utf8(response)
        return (
            self._evaluate_first(text)
            if self._exchange is None
            else self._evaluate_final(text, self._exchange)
        )

    def _evaluate_first(self, text: str) -> bytes:
        match = _FIRST.fullmatch(text)
        if match is None:
            raise SaslServerError("Invalid SCRAM client first message")
        user = _unescape_name(match["name"])
        credential = self._credentials.scram(user, self._mechanism)
        if credential is None:
            raise SaslServerError("Authentication failed: Invalid user credentials")
        _check_authorization_id(_unescape_name(match["authzid"] or ""), user)
        nonce = match["nonce"] + self._nonce
        salt = b64encode(credential.salt).decode()
        server_first = f"r={nonce},s={salt},i={credential.iterations}"
        self._exchange = _Exchange(
            user=user,
            credential=credential,
            nonce=nonce,
            gs2=match["gs2"],
            messages=f"{match['bare']},{server_first}",
        )
        return server_first.encode()

    def _evaluate_final(self, text: str, exchange: _Exchange) -> bytes:
        match = _FINAL.fullmatch(text)
        if match is None or _decode_base64(match["binding"]) != exchange.gs2.encode():
            raise SaslServerError("Invalid SCRAM client final message")
        # Check only the end, like Kafka, because librdkafka before 2.2 sends its own part twice.
        if not match["nonce"].endswith(exchange.nonce):
            raise SaslServerError("Invalid client nonce in the final client message.")
        signed = f"{exchange.messages},{match['bare']}".encode()
        if not self._is_proof(_decode_base64(match["proof"]), signed, exchange.credential):
            raise SaslServerError("Invalid client credentials")
        signature = hmac.digest(exchange.credential.server_key, signed, self._hash)
        self.is_complete = True
        self.user = exchange.user
        self._exchange = None
        return b"v=" + b64encode(signature)

    def _is_proof(self, proof: bytes, signed: bytes, credential: ScramCredential) -> bool:
        """Return True if a client proof matches the stored hash of the client key."""
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return False
        key = bytes(left ^ other for left, other in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._hash, key).digest(), credential.stored_key)


def _unescape_name(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise SaslServerError("Invalid SCRAM message: not base64") from None
