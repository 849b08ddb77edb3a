"""Cipher suites: IANA's names, as Java's ssl.cipher.suites has them, to those of OpenSSL."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TLS_1_3_SUITES = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)
"""RFC 8446; the same in both worlds."""

_LEVEL = "@SECLEVEL="
_DEFAULT = "DEFAULT"
_IANA = re.compile(r"(?:TLS|SSL)_(?P<exchange>\w+?)_WITH_(?P<cipher>\w+)")
_HASH = re.compile(r"_SHA\d*$")


@dataclass(frozen=True, slots=True)
class CipherSuites:
    """A choice of suites, by protocol version, in OpenSSL's names."""

    tls_1_2: tuple[str, ...]
    tls_1_3: frozenset[str]
    level: str | None = None
    """OpenSSL's level of security, 0 to 5, where the user names one."""


def cipher_suites(names: Sequence[str]) -> CipherSuites:
    """Sort suites by version; names without TLS_ or SSL_ in front are OpenSSL's and kept.

    As in a cipher string of OpenSSL, a name may end with @SECLEVEL=n, also that of no suite, or
    DEFAULT: neither is a choice of suites.
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
    """OpenSSL's name of a suite of TLS 1.2.

    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 is ECDHE-RSA-AES256-GCM-SHA384: the key exchange is left
    out if it is RSA's, CBC is not named, and neither is the hash with CHACHA20 and CCM.
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
