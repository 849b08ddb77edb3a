"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), as Kafka's ScramSaslServer.

The client proves that it knows the password, the server that it has the keys derived from it. The
stored keys do not reveal the password.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.security.credentials import HASHES
from spark_kafka_sink.broker.security.mechanism import RefusedError, ToldRefusedError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.security.credentials import Credentials, ScramCredential

_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|[^\x00-\x7F]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[^,\x00]+)*"
_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>(?:m=[^,\x00]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
)
_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    r",p=(?P<proof>[A-Za-z0-9+/=]+)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """The state of an exchange between the client's two messages."""

    user: str
    credential: ScramCredential
    nonce: str
    gs2: str
    messages: str
    """The client's first message without its GS2 header, and the server's first message."""


class ScramSaslServer:
    """SASL/SCRAM: two client messages, two server messages.

    Args:
        credentials: the users.
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        nonce: the server's part of the nonce; random by default.
    """

    __slots__ = ("_begun", "_credentials", "_hash", "_mechanism", "_nonce", "is_complete", "user")

    expires_at_ms = None

    def __init__(
        self, credentials: Credentials, mechanism: str, *, nonce: str | None = None
    ) -> None:
        self._credentials = credentials
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._nonce = secrets.token_urlsafe(24) if nonce is None else nonce
        self._begun: _Begun | None = None
        self.is_complete = False
        self.user = ""

    def evaluate(self, response: bytes) -> bytes:
        """See `SaslServer`."""
        try:
            text = response.decode()
        except UnicodeDecodeError:
            raise RefusedError("the message is not UTF-8") from None
        return self._first(text) if self._begun is None else self._final(text, self._begun)

    def _first(self, text: str) -> bytes:
        found = _FIRST.fullmatch(text)
        if found is None:
            raise RefusedError("Invalid SCRAM client first message")
        user = _unescaped(found["name"])
        credential = self._credentials.scram(user, self._mechanism)
        if credential is None:
            raise RefusedError("Authentication failed: Invalid user credentials")
        if _unescaped(found["authzid"] or "") not in {"", user}:
            raise ToldRefusedError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        nonce = found["nonce"] + self._nonce
        salt = b64encode(credential.salt).decode()
        answer = f"r={nonce},s={salt},i={credential.iterations}"
        self._begun = _Begun(
            user=user,
            credential=credential,
            nonce=nonce,
            gs2=found["gs2"],
            messages=f"{found['bare']},{answer}",
        )
        return answer.encode()

    def _final(self, text: str, begun: _Begun) -> bytes:
        found = _FINAL.fullmatch(text)
        if found is None or _decoded(found["binding"]) != begun.gs2.encode():
            raise RefusedError("Invalid SCRAM client final message")
        # Kafka only checks the end: librdkafka before 2.2 repeats its own part of the nonce.
        if not found["nonce"].endswith(begun.nonce):
            raise RefusedError("Invalid client nonce in the final client message.")
        signed = f"{begun.messages},{found['bare']}".encode()
        if not self._proves(_decoded(found["proof"]), signed, begun.credential):
            raise RefusedError("Invalid client credentials")
        signature = hmac.digest(begun.credential.server_key, signed, self._hash)
        self.is_complete, self.user, self._begun = True, begun.user, None
        return b"v=" + b64encode(signature)

    def _proves(self, proof: bytes, signed: bytes, credential: ScramCredential) -> bool:
        """Return True if a client proof yields the client key whose hash is stored."""
        signature = hmac.digest(credential.stored_key, signed, self._hash)
        if len(proof) != len(signature):
            return False
        key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        return hmac.compare_digest(hashlib.new(self._hash, key).digest(), credential.stored_key)


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error:
        raise RefusedError("Invalid SCRAM message: not base64") from None
