"""Keys, messages and exchange of SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677)."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import os
import re
import secrets
from base64 import b64decode, b64encode
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.text import quoted
from spark_kafka_sink.config.security.security_config import Mechanism, PasswordLogin
from spark_kafka_sink.kafka.security.credentials import reveal_text
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange, decode_text

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.security.sasl.exchange import Messages

_MAX_CACHED = 32
"""Maximum number of salted passwords in the cache. A user has a separate entry for each salt."""
_GS2_HEADER = "n,,"
"""Header without channel binding and without authorization identity."""
_MIN_ITERATIONS = 4_096
"""Minimum number of iterations required by RFC 7677. With fewer iterations, passwords can be
guessed cheaply.
"""
MAX_ITERATIONS = 1_000_000
"""Maximum number of iterations, which take one or two seconds on a single core. Kafka allows at
most 16,384, and current recommendations for stored passwords are below a million. Without a limit,
a server that requests billions of iterations would occupy the client for hours.
"""
_EXTENSIONS = r"(?:,[A-Za-z]+=[^,\0]+)*"
_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/=]+),i=(?P<iterations>[0-9]+)"
    + _EXTENSIONS
)
_SERVER_FINAL = re.compile(r"v=(?P<verifier>[A-Za-z0-9+/=]+)" + _EXTENSIONS)
_ERROR = "e="
_ALGORITHMS = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
_CHANNEL_BINDING = b64encode(_GS2_HEADER.encode()).decode()


class SaltedPasswords:
    """Cache of PBKDF2 results, so that connections of one user hash the password only once.

    The cache key is a keyed digest, so neither the password nor a fast hash of the password stays
    in memory.
    """

    def __init__(self) -> None:
        self._digest_key = os.urandom(32)
        # Guards `_cached`. It is held during hashing, so that waiting threads find the result.
        self._lock = Lock()
        self._cached: OrderedDict[bytes, bytes] = OrderedDict()

    def salted(self, algorithm: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        """Return `Hi(password, salt, i)`; `algorithm` is the name of the hash in hashlib."""
        key = self._key_of(algorithm, password, salt, iterations)
        with self._lock:
            salted = self._cached.get(key)
            if salted is None:
                salted = hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
                self._cached[key] = salted
                if len(self._cached) > _MAX_CACHED:
                    self._cached.popitem(last=False)
            self._cached.move_to_end(key)
            return salted

    def _key_of(self, algorithm: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        head = f"{algorithm},{iterations},{len(salt)},".encode()
        return hmac.digest(self._digest_key, head + salt + password, "sha256")


_shared_passwords = SaltedPasswords()
"""The salted passwords of this process, for all of its connections."""


def _client_proof(algorithm: str, salted_password: bytes, auth_message: bytes) -> bytes:
    """Return `ClientKey XOR HMAC(H(ClientKey), AuthMessage)`."""
    client_key = hmac.digest(salted_password, b"Client Key", algorithm)
    stored_key = hashlib.new(algorithm, client_key).digest()
    signature = hmac.digest(stored_key, auth_message, algorithm)
    return bytes(left ^ right for left, right in zip(client_key, signature, strict=True))


def _server_signature(algorithm: str, salted_password: bytes, auth_message: bytes) -> bytes:
    """Return the signature that only a server with the user's ServerKey can send."""
    server_key = hmac.digest(salted_password, b"Server Key", algorithm)
    return hmac.digest(server_key, auth_message, algorithm)


@dataclass(frozen=True, slots=True)
class _ServerFirst:
    """The server's challenge."""

    nonce: str
    """The client's nonce followed by the server's nonce."""
    salt: bytes = field(repr=False)
    iterations: int


def _sasl_name(name: str) -> str:
    """Return a user name with `=` and `,` escaped, but without SASLprep, as in Kafka."""
    return name.replace("=", "=3D").replace(",", "=2C")


def _client_first_bare(name: str, nonce: str, *, token_auth: bool) -> str:
    """Return the client's first message without the GS2 header.

    Args:
        name: name of the user, or id of a delegation token (KIP-48).
        nonce: printable ASCII without a comma.
        token_auth: True if the name is the id of a delegation token.
    """
    bare = f"n={_sasl_name(name)},r={nonce}"
    return f"{bare},tokenauth=true" if token_auth else bare


def _parse_server_first(text: str, mechanism: str, client_nonce: str) -> _ServerFirst:
    """Parse and check the server's first message.

    Raises:
        AuthenticationError: the message is malformed or is an error, requires an extension,
            contains a different nonce, or requests too few or too many iterations.
    """
    _check_error(text, mechanism)
    if text.startswith("m="):
        raise AuthenticationError(
            f"the broker's {mechanism} challenge requires an unknown extension"
        )
    match = _SERVER_FIRST.fullmatch(text)
    if match is None:
        raise AuthenticationError(f"the broker's {mechanism} challenge is malformed")
    nonce = match["nonce"]
    if not nonce.startswith(client_nonce) or nonce == client_nonce:
        raise AuthenticationError(
            f"the broker's {mechanism} nonce does not start with the client's nonce: the challenge "
            "is for a different login"
        )
    salt = _base64(match["salt"], f"{mechanism} salt")
    return _ServerFirst(nonce, salt, _parse_iterations(match["iterations"], mechanism))


def _parse_iterations(digits: str, mechanism: str) -> int:
    iterations = int(digits) if len(digits) <= len(str(MAX_ITERATIONS)) else MAX_ITERATIONS + 1
    if iterations < _MIN_ITERATIONS:
        raise AuthenticationError(
            f"the broker requires {iterations} {mechanism} iterations, fewer than the minimum of "
            f"{_MIN_ITERATIONS:,}"
        )
    if iterations > MAX_ITERATIONS:
        raise AuthenticationError(
            f"the broker requires {quoted(digits)} {mechanism} iterations, more than the maximum "
            f"of {MAX_ITERATIONS:,}"
        )
    return iterations


def _parse_server_final(text: str, mechanism: str) -> bytes:
    """Return the server's signature from its last message.

    Raises:
        AuthenticationError: the message is malformed or an error.
    """
    _check_error(text, mechanism)
    match = _SERVER_FINAL.fullmatch(text)
    if match is None:
        raise AuthenticationError(f"the broker's last {mechanism} message is malformed")
    return _base64(match["verifier"], f"{mechanism} signature")


def _check_error(text: str, mechanism: str) -> None:
    if text.startswith(_ERROR):
        reason = quoted(text.removeprefix(_ERROR))
        raise AuthenticationError(f"the broker rejected the {mechanism} login: {reason}")


def _base64(text: str, name: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise AuthenticationError(f"the broker's {name} is not base64") from error


def scram_exchange(
    mechanism: Mechanism,
    login: PasswordLogin,
    *,
    nonce: str | None = None,
    salted_passwords: SaltedPasswords = _shared_passwords,
) -> SaslExchange:
    """Return an exchange for the login of a user or a delegation token.

    Args:
        mechanism: SCRAM_SHA_256 or SCRAM_SHA_512.
        login: name and password.
        nonce: printable ASCII without a comma; by default a random nonce of 192 bits.
        salted_passwords: cache of hashed passwords.
    """
    messages = _messages(mechanism, login, nonce or secrets.token_urlsafe(24), salted_passwords)
    return SaslExchange(mechanism.value, messages)


def _messages(
    mechanism: Mechanism, login: PasswordLogin, nonce: str, salted_passwords: SaltedPasswords
) -> Messages:
    """Yield the name, then the proof for the broker's challenge; check the broker's signature."""
    name, algorithm = mechanism.value, _ALGORITHMS[mechanism]
    bare = _client_first_bare(reveal_text(login.username), nonce, token_auth=login.token_auth)
    challenge = decode_text((yield (_GS2_HEADER + bare).encode()), name)
    server_first = _parse_server_first(challenge, name, nonce)
    password = reveal_text(login.password).encode()
    salted = salted_passwords.salted(
        algorithm, password, server_first.salt, server_first.iterations
    )
    without_proof = f"c={_CHANNEL_BINDING},r={server_first.nonce}"
    auth_message = f"{bare},{challenge},{without_proof}".encode()
    proof = b64encode(_client_proof(algorithm, salted, auth_message)).decode()
    server_final = decode_text((yield f"{without_proof},p={proof}".encode()), name)
    expected = _server_signature(algorithm, salted, auth_message)
    if not hmac.compare_digest(_parse_server_final(server_final, name), expected):
        raise AuthenticationError(
            f"the broker's {name} signature is wrong: the broker does not know this user's "
            "password and might be an impostor",
            hint="Check kafka.bootstrap.servers, and look for proxies in front of the broker.",
        )
