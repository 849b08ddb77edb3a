"""Parse the list of bootstrap servers."""

from __future__ import annotations

import ipaddress
import re

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr

_ENTRY = re.compile(
    r"""(?:(?P<protocol>[A-Za-z][A-Za-z0-9_.-]*)://)?
        (?:\[(?P<v6>[0-9A-Fa-f:.%a-zA-Z]+)\]|(?P<host>[0-9A-Za-z._%-]+))
        :(?P<port>[0-9]{1,5})""",
    re.VERBOSE | re.ASCII,
)
_SECURED = frozenset({"SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_HINT = "Use host:port, separated by commas, with IPv6 addresses in brackets: [::1]:9092."


def parse_addresses(text: str, key: str) -> tuple[str, ...]:
    """Parse "host:port,host:port" into unique addresses, in their original order.

    Raises:
        ConfigError: there is no address, or some are invalid; the message lists all invalid
            addresses.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not entries:
        raise ConfigError(f"option {key} is empty, but at least one broker is required", hint=_HINT)
    addresses: dict[str, None] = {}
    problems: list[str] = []
    for entry in entries:
        try:
            addresses[_parse_entry(entry)] = None
        except ValueError as error:
            problems.append(f"{_redact_entry(entry)} ({error})")
    if problems:
        raise ConfigError(f"option {key} has invalid addresses: {', '.join(problems)}", hint=_HINT)
    return tuple(addresses)


def secured_protocols(text: str) -> frozenset[str]:
    """Return the secure protocols that prefix an address, as in SASL_SSL://host:port.

    In Java, this prefix can be any text (usually a listener's name) and is ignored.
    """
    parts = (entry.strip().partition("://") for entry in text.split(","))
    return frozenset(name.upper() for name, sign, _ in parts if sign) & _SECURED


def _parse_entry(entry: str) -> str:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise ValueError(_entry_problem(entry))
    if not 0 < int(match["port"]) < 65536:
        raise ValueError("the port must be between 1 and 65535")
    return f"{_parse_host(match)}:{int(match['port'])}"


def _parse_host(match: re.Match[str]) -> str:
    if match["v6"] is None:
        return match["host"]
    try:
        ipaddress.IPv6Address(match["v6"])
    except ValueError:
        raise ValueError("invalid IPv6 address") from None
    return f"[{match['v6']}]"


def _entry_problem(entry: str) -> str:
    host = entry.rpartition("://")[2]
    if "@" in host:
        return "an address cannot contain a user or password"
    if ";" in host:
        return "commas must separate addresses"
    if host.count(":") > 1 and not host.startswith("["):
        return "IPv6 addresses need brackets"
    return "no port" if ":" not in host or host.endswith("]") else "not host:port"


def _redact_entry(entry: str) -> str:
    """Return the entry without anything that could be a password."""
    head, at, tail = entry.rpartition("@")
    return safe_repr(f"…@{tail}" if at and head else entry)
