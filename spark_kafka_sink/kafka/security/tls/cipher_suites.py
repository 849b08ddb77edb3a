"""Cipher suites by their names in Java and in OpenSSL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LEVEL = "@SECLEVEL="
_DEFAULT = "DEFAULT"
TLS_1_3_SUITES = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
"""Cipher suites of RFC 8446. Java and OpenSSL use the same names."""
_IANA = re.compile(r"(?:TLS|SSL)_(?P<exchange>\w+?)_WITH_(?P<cipher>\w+)")
_HASH = re.compile(r"_SHA\d*$")


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """The selected cipher suites by protocol version, with OpenSSL's names."""

    tls_1_2: tuple[str, ...]
    tls_1_3: frozenset[str]
    level: str | None = None
    """OpenSSL's security level, 0 to 5, or None if the user has not set it."""


def cipher_suites(names: Sequence[str]) -> CipherSuites:
    """Group cipher suites by protocol version.

    Names without the prefix TLS_ or SSL_ are OpenSSL's names. As in OpenSSL's cipher strings, a
    name can end with @SECLEVEL=n. @SECLEVEL=n and DEFAULT@SECLEVEL=n are also allowed, but select
    no suites.
    """
    parts = [name.partition(_LEVEL) for name in names]
    suites = [name for name, _, _ in parts if name not in ("", _DEFAULT)]
    levels = [level for _, sign, level in parts if sign]
    return CipherSuites(
        tuple(openssl_name(name) for name in suites if name not in TLS_1_3_SUITES),
        TLS_1_3_SUITES.intersection(suites),
        levels[-1] if levels else None,
    )


def openssl_name(name: str) -> str:
    """Return OpenSSL's name of a TLS 1.2 suite.

    For example, TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384 in OpenSSL.
    OpenSSL's names omit the key exchange RSA, the mode CBC, and the hash of CHACHA20 and CCM
    suites.
    """
    match = _IANA.fullmatch(name)
    if match is None:
        return name
    cipher = match["cipher"].replace("_CBC", "").replace("3DES_EDE", "DES_CBC3")
    if "CHACHA20" in cipher or "CCM" in cipher:
        cipher = _HASH.sub("", cipher)
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", cipher).replace("CCM_8", "CCM8")
    parts = [cipher] if match["exchange"] == "RSA" else [match["exchange"], cipher]
    return "-".join(parts).replace("_", "-")
