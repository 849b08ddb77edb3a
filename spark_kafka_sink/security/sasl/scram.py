"""SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677, KIP-84): the broker proves itself, too."""

from __future__ import annotations

import hmac
import secrets
from base64 import b64encode
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.config.security.model import Mechanism
from spark_kafka_sink.security.credentials import revealed
from spark_kafka_sink.security.sasl.scram_keys import (
    PROCESS_WIDE,
    SaltedPasswords,
    client_proof,
    server_signature,
)
from spark_kafka_sink.security.sasl.scram_messages import (
    GS2_HEADER,
    client_first_bare,
    parse_server_final,
    parse_server_first,
)
from spark_kafka_sink.security.sasl.server_message import decoded

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import PasswordLogin

_ALGORITHMS = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}
_CHANNEL_BINDING = b64encode(GS2_HEADER.encode()).decode()


class _Expects(Enum):
    """What the broker has to send next."""

    SERVER_FIRST = auto()
    SERVER_FINAL = auto()
    NOTHING = auto()


class ScramExchange:
    """See `SaslExchange`.

    Args:
        mechanism: SCRAM_SHA_256 or SCRAM_SHA_512.
        login: of a user, or of a delegation token.
        nonce: printable ASCII without a comma; by default a random one of 192 bits.
        salted_passwords: where hashed passwords are kept.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        login: PasswordLogin,
        *,
        nonce: str | None = None,
        salted_passwords: SaltedPasswords = PROCESS_WIDE,
    ) -> None:
        self._mechanism = mechanism
        self._algorithm = _ALGORITHMS[mechanism]
        self._login = login
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._salted_passwords = salted_passwords
        self._expects = _Expects.SERVER_FIRST
        self._client_first_bare = ""
        self._server_signature = b""

    @property
    def mechanism(self) -> str:
        """See `SaslExchange`."""
        return self._mechanism.value

    def first(self) -> bytes:
        """The name and a nonce.

        Raises:
            ConfigError: the name can't be found, is empty, or is not UTF-8.
        """
        self._client_first_bare = client_first_bare(
            revealed(self._login.username), self._nonce, token_auth=self._login.token_auth
        )
        return (GS2_HEADER + self._client_first_bare).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """The proof to the broker's challenge, or None to its signature.

        Raises:
            AuthenticationError: a message is malformed or out of turn, tells an error, or its
                signature shows that the broker does not know the password's keys.
            ConfigError: the password can't be found, is empty, or is not UTF-8.
        """
        text = decoded(challenge, self.mechanism)
        match self._expects:
            case _Expects.SERVER_FIRST:
                return self._prove(text)
            case _Expects.SERVER_FINAL:
                self._verify(text)
                return None
            case _Expects.NOTHING:
                raise AuthenticationError(
                    f"the broker goes on with {self.mechanism} after it has ended"
                )

    def _prove(self, text: str) -> bytes:
        server_first = parse_server_first(text, self.mechanism, self._nonce)
        salted = self._salted_passwords.salted(
            self._algorithm,
            revealed(self._login.password).encode(),
            server_first.salt,
            server_first.iterations,
        )
        without_proof = f"c={_CHANNEL_BINDING},r={server_first.nonce}"
        auth_message = f"{self._client_first_bare},{text},{without_proof}".encode()
        proof = client_proof(self._algorithm, salted, auth_message)
        self._server_signature = server_signature(self._algorithm, salted, auth_message)
        self._expects = _Expects.SERVER_FINAL
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _verify(self, text: str) -> None:
        signature = parse_server_final(text, self.mechanism)
        self._expects = _Expects.NOTHING
        if not hmac.compare_digest(signature, self._server_signature):
            raise AuthenticationError(
                f"the broker's {self.mechanism} signature is wrong: it does not know this user's "
                "password, so it is not the broker that it claims to be",
                hint="Check kafka.bootstrap.servers, and for what lies between here and there.",
            )
