"""Who a bearer token belongs to: tokens that nobody signed, and those of an issuer (RFC 7519)."""

from __future__ import annotations

import binascii
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.extras import install_command

_UNSIGNED: Final = "none"
_SIGNED: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures of a key that only the issuer has."""
_LATEST_MS: Final = 2**53
"""The largest number that every reader of JSON takes for the same (RFC 8259, section 6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """What a valid token says.

    Args:
        principal: whose it is.
        expires_at_ms: when it ends, in milliseconds of the epoch: the session ends then, too.
    """

    principal: str
    expires_at_ms: int


TokenValidator: TypeAlias = Callable[[str], BearerToken]
"""Takes a token's text; raises AuthenticationError where it is not valid."""


def unsecured_token(principal: str, lifetime_seconds: float = 3600.0) -> str:
    """A token that nobody signed, as Kafka's unsecured login makes it."""
    now = time.time()
    claims = {"sub": principal, "iat": now, "exp": now + lifetime_seconds}
    return f"{_encoded({'alg': _UNSIGNED})}.{_encoded(claims)}."


def validate_unsecured(token: str) -> BearerToken:
    """Believe a token that nobody signed, for tests (OAuthBearerUnsecuredValidatorCallbackHandler).

    Raises:
        AuthenticationError: it is signed, has ended, or is no token.
    """
    header, claims, signature = _parts(token)
    if _json(header).get("alg") != _UNSIGNED or signature:
        raise AuthenticationError("the token is signed")
    return _token(_json(claims), "sub")


@dataclass(frozen=True, slots=True, kw_only=True)
class JwksValidator:
    """Believes tokens that an issuer signed; needs the extra `oauth`.

    Args:
        keys: the issuer's JSON Web Key Set (RFC 7517), as a function where it changes.
        issuer: the claim iss that is asked for; None for any.
        audience: the claim aud that is asked for; None for any.
        principal_claim: the claim that says whose the token is.
    """

    keys: Mapping[str, Any] | Callable[[], Mapping[str, Any]]
    issuer: str | None = None
    audience: str | None = None
    principal_claim: str = "sub"

    def __call__(self, token: str) -> BearerToken:
        """See `TokenValidator`.

        Raises:
            AuthenticationError: it is not the issuer's, has ended, or is for somebody else.
            ConfigError: joserfc is not installed.
        """
        try:
            from joserfc.errors import JoseError
            from joserfc.jwk import KeySet
            from joserfc.jwt import JWTClaimsRegistry, decode
        except ImportError as error:
            raise ConfigError(
                "a JwksValidator needs joserfc", hint=install_command("oauth")
            ) from error
        keys = self.keys() if callable(self.keys) else self.keys
        wanted = {"iss": self.issuer, "aud": self.audience}
        options: dict[str, Any] = {
            name: {"essential": True, "value": value} for name, value in wanted.items() if value
        }
        try:
            known: Any = dict(keys)
            claims = decode(token, KeySet.import_key_set(known), algorithms=_SIGNED).claims
            JWTClaimsRegistry(**options).validate(claims)
        except (JoseError, ValueError, TypeError) as error:
            # A TypeError: joserfc iterates over the header crit whatever it is.
            raise AuthenticationError(f"the token is not valid: {error}") from error
        return _token(claims, self.principal_claim)


def _token(claims: Mapping[str, Any], principal_claim: str) -> BearerToken:
    principal, ends = claims.get(principal_claim), claims.get("exp")
    if not isinstance(principal, str) or not principal or not _is_unicode(principal):
        raise AuthenticationError(f"the token has no claim {principal_claim}")
    if not isinstance(ends, int | float) or not ends <= _LATEST_MS / 1000:  # NaN is neither.
        raise AuthenticationError("the token has no claim exp that is a time")
    if ends <= time.time():
        raise AuthenticationError("the token has ended")
    return BearerToken(principal=principal, expires_at_ms=int(ends * 1000))


def _is_unicode(text: str) -> bool:
    """Whether it can be sent and logged: JSON may escape half of a surrogate pair."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _parts(token: str) -> tuple[str, str, str]:
    parts = token.split(".")
    if len(parts) != 3:
        raise AuthenticationError("the token is no JSON Web Token")
    return parts[0], parts[1], parts[2]


def _json(part: str) -> Mapping[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        raise AuthenticationError("the token is no JSON Web Token") from None
    if not isinstance(found, dict):
        raise AuthenticationError("the token is no JSON Web Token")
    return found


def _encoded(values: Mapping[str, Any]) -> str:
    return urlsafe_b64encode(json.dumps(values).encode()).rstrip(b"=").decode()
