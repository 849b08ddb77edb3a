"""OAUTHBEARER's login for development: Java's OAuthBearerUnsecuredLoginCallbackHandler."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import UnsecuredTokenLogin

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.sasl.jaas import JaasOptions

CLAIMS = "unsecuredLogin"
"""How all options of this login begin."""
_STRING = "unsecuredLoginStringClaim_"
_NUMBER = "unsecuredLoginNumberClaim_"
_LIST = "unsecuredLoginListClaim_"
_EXTENSION = "unsecuredLoginExtension_"
_LIFETIME = "unsecuredLoginLifetimeSeconds"
_PRINCIPAL = "unsecuredLoginPrincipalClaimName"


def unsecured_token_login(
    options: JaasOptions, extensions: tuple[tuple[str, str], ...]
) -> UnsecuredTokenLogin:
    """A token of the claims in the login module.

    Raises:
        ConfigError: no claim says who the client is, or a number is none.
    """
    claims: dict[str, str | float | tuple[str, ...]] = {}
    claims |= options.beginning(_STRING)
    for name, text in options.beginning(_NUMBER).items():
        claims[name] = _number(options, f"{_NUMBER}{name}", text)
    for name, text in options.beginning(_LIST).items():
        # The first letter is what stands between the values, as in "|one|two".
        claims[name] = tuple(text[1:].split(text[0])) if text else ()
    principal = options.text(_PRINCIPAL) or "sub"
    if not str(claims.get(principal, "")).strip():
        raise ConfigError(
            f"{options.place} has no claim {principal}, which says who the client is",
            hint=f'Add {_STRING}{principal}="name"; such a token is for development alone. '
            "For an issuer's set kafka.sasl.oauthbearer.token.endpoint.url.",
        )
    lifetime = _number(options, _LIFETIME, options.text(_LIFETIME) or "3600")
    return UnsecuredTokenLogin(
        claims=tuple(sorted(claims.items())),
        lifetime_seconds=int(lifetime),
        extensions=tuple(sorted({**dict(extensions), **options.beginning(_EXTENSION)}.items())),
    )


def _number(options: JaasOptions, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{options.name(name)} is not a number")
    return number
