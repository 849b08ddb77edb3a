"""OAUTHBEARER (RFC 7628, KIP-255), as Kafka's OAuthBearerSaslServer.

A token that is refused is answered with a status as JSON, to which the client says one more byte
before it is told that it failed.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.security.mechanism import RefusedError, ToldRefusedError
from spark_kafka_sink.common.errors import AuthenticationError

if TYPE_CHECKING:
    from spark_kafka_sink.broker.security.bearer_tokens import BearerToken, TokenValidator

_SASL_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_MESSAGE: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_BEARER: Final = re.compile(r"(?i:bearer) +(?P<token>[-_.a-zA-Z0-9]+)")
_AGREED: Final = b"\x01"
"""What the client says to a refusal."""


class OAuthBearerSaslServer:
    """One message with a token; extensions (KIP-342) are taken whatever they are.

    Args:
        validate: says whose a token is.
    """

    __slots__ = ("_refusal", "_validate", "expires_at_ms", "is_complete", "user")

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._refusal: str | None = None
        self.is_complete = False
        self.user = ""
        self.expires_at_ms: int | None = None

    def evaluate(self, response: bytes) -> bytes:
        """See `SaslServer`."""
        if response == _AGREED and self._refusal is not None:
            raise ToldRefusedError(self._refusal)
        authorization_id, text = _parsed(response)
        try:
            token = self._validate(text)
        except AuthenticationError:
            self._refusal = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._refusal.encode()
        self._accept(token, authorization_id)
        return b""

    def _accept(self, token: BearerToken, authorization_id: str) -> None:
        if authorization_id not in {"", token.principal}:
            raise ToldRefusedError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({token.principal})"
            )
        self.is_complete, self.user = True, token.principal
        self.expires_at_ms = token.expires_at_ms


def _parsed(response: bytes) -> tuple[str, str]:
    """The authorization id and the token of the client's message."""
    found = _MESSAGE.fullmatch(response.decode("utf-8", "replace"))
    if found is None:
        raise RefusedError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise RefusedError("Invalid OAUTHBEARER client first message: no bearer token")
    name = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, bearer["token"]
