"""OAUTHBEARER on the server (RFC 7628, KIP-255) and validation of bearer tokens (RFC 7519).

The exchange is implemented as in Kafka's OAuthBearerSaslServer. The server responds to an invalid
token with a JSON status. The client acknowledges the status with a single byte, after which the
authentication fails.
"""

from __future__ import annotations

import binascii
import json
import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from spark_kafka_sink.broker.security.sasl_server import (
    SaslAuthenticationError,
    SaslServer,
    SaslServerError,
)
from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.optional_dependencies import install_command

_UNSIGNED = "none"
_SIGNED = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Asymmetric signature algorithms, for which only the issuer has the private key."""
_LATEST_MS = 2**53
"""The largest integer that every JSON parser represents exactly (RFC 8259, section 6)."""
_SASL_NAME = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_MESSAGE = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(r"(?i:bearer) +(?P<token>[-_.a-zA-Z0-9]+)")
_ACKNOWLEDGED_FAILURE = b"\x01"
"""The client's message after its token was rejected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """The properties of a valid token."""

    principal: str
    """The name of the token's principal."""
    expires_at_ms: int
    """Expiration time of token and session in milliseconds since 1970."""


TokenValidator: TypeAlias = Callable[[str], BearerToken]
"""Function that validates a token's text, and raises AuthenticationError if it is invalid."""


def unsecured_token(principal: str, lifetime_seconds: float = 3600.0) -> str:
    """Return an unsigned token like those of Kafka's unsecured login."""
    now = time.time()
    claims = {"sub": principal, "iat": now, "exp": now + lifetime_seconds}
    return f"{_encode_part({'alg': _UNSIGNED})}.{_encode_part(claims)}."


def validate_unsecured(token: str) -> BearerToken:
    """Validate an unsigned token, for tests (OAuthBearerUnsecuredValidatorCallbackHandler).

    Raises:
        AuthenticationError: the token is signed, expired or malformed.
    """
    header, claims, signature = _token_parts(token)
    if _decode_part(header).get("alg") != _UNSIGNED or signature:
        raise AuthenticationError("the token is signed, but only unsigned tokens are accepted")
    return _check_claims(_decode_part(claims), "sub")


@dataclass(frozen=True, slots=True, kw_only=True)
class JwksValidator:
    """Validates tokens that an issuer signed. Requires the `oauth` extra."""

    keys: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    """The issuer's JSON Web Key Set (RFC 7517), or a function that returns the current set."""
    issuer: str | None = None
    """Required value of the claim iss, or None for any issuer."""
    audience: str | None = None
    """Required value of the claim aud, or None for any audience."""
    principal_claim: str = "sub"
    """The claim that contains the principal's name."""

    def __call__(self, token: str) -> BearerToken:
        """See `TokenValidator`.

        Raises:
            AuthenticationError: the token is invalid or expired, or has a different issuer or
                audience.
            ConfigError: joserfc is not installed.
        """
        try:
            from joserfc.errors import JoseError
            from joserfc.jwk import KeySet
            from joserfc.jwt import JWTClaimsRegistry, decode
        except ImportError as error:
            raise ConfigError(
                "JwksValidator requires joserfc", hint=install_command("oauth")
            ) from error
        keys = self.keys() if callable(self.keys) else self.keys
        required = {"iss": self.issuer, "aud": self.audience}
        options: dict[str, Any] = {
            name: {"essential": True, "value": value} for name, value in required.items() if value
        }
        try:
            known: Any = dict(keys)
            claims = decode(token, KeySet.import_key_set(known), algorithms=_SIGNED).claims
            JWTClaimsRegistry(**options).validate(claims)
        except (JoseError, ValueError, LookupError, TypeError, RecursionError) as error:
            # TypeError is raised because joserfc iterates over a `crit` header of any type.
            # RecursionError: releases before 1.3 parse a deeply nested header.
            raise AuthenticationError(f"the token is invalid: {error}") from error
        return _check_claims(claims, self.principal_claim)


def _check_claims(claims: Mapping[str, Any], principal_claim: str) -> BearerToken:
    principal, ends = claims.get(principal_claim), claims.get("exp")
    if not isinstance(principal, str) or not principal or not _is_unicode(principal):
        raise AuthenticationError(f"the token has no valid claim {principal_claim}")
    if not isinstance(ends, int | float) or not ends <= _LATEST_MS / 1000:  # This also rejects NaN.
        raise AuthenticationError("the claim exp is missing or is not a valid time")
    if ends <= time.time():
        raise AuthenticationError("the token has expired")
    return BearerToken(principal=principal, expires_at_ms=int(ends * 1000))


def _is_unicode(text: str) -> bool:
    """Return True if a text can be encoded. JSON can contain unpaired surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _token_parts(token: str) -> tuple[str, str, str]:
    parts = token.split(".")
    if len(parts) != 3:
        raise AuthenticationError("the token is not a JSON Web Token")
    return parts[0], parts[1], parts[2]


def _decode_part(part: str) -> Mapping[str, Any]:
    try:
        claims = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise AuthenticationError("the token is not a JSON Web Token") from None
    if not isinstance(claims, dict):
        raise AuthenticationError("the token is not a JSON Web Token")
    return claims


def _encode_part(values: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(values).encode()).rstrip(b"=").decode()


class OAuthBearerSaslServer(SaslServer):
    """SASL/OAUTHBEARER: one message with a token. Extensions (KIP-342) are not checked.

    Args:
        validate: validates the token and returns its principal.
    """

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._rejection: str | None = None

    def evaluate(self, response: bytes) -> bytes:
        """See `SaslServer`."""
        if response == _ACKNOWLEDGED_FAILURE and self._rejection is not None:
            raise SaslAuthenticationError(self._rejection)
        authorization_id, text = _parse_message(response)
        try:
            token = self._validate(text)
        except AuthenticationError:
            self._rejection = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            return self._rejection.encode()
        self._accept_token(token, authorization_id)
        return b""

    def _accept_token(self, token: BearerToken, authorization_id: str) -> None:
        if authorization_id not in {"", token.principal}:
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({token.principal})"
            )
        self.is_complete = True
        self.user = token.principal
        self.expires_at_ms = token.expires_at_ms


def _parse_message(response: bytes) -> tuple[str, str]:
    """Return the authorization id and the token of the client's message."""
    match = _MESSAGE.fullmatch(response.decode("utf-8", "replace"))
    if match is None:
        raise SaslServerError("Invalid OAUTHBEARER client first message")
    pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise SaslServerError("Invalid OAUTHBEARER client first message: no bearer token")
    name = (match["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, bearer["token"]
