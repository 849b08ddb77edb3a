"""The resolution of host names.

Source: KIP-302 (use_all_dns_ips), ``ClientUtils.resolve``.
"""

from __future__ import annotations

import socket
from typing import Any

Address = tuple[int, tuple[Any, ...]]
"""An address family, and the argument of `socket.connect` for it."""


def resolve(host: str, port: int, flags: int = 0) -> list[Address]:
    """Return all addresses of a name (blocks); raise OSError if it has no address."""
    if not 0 < port < 65536:
        raise OSError(f"{port} is not a valid port")
    name: str | bytes = host.strip("[]")
    if host.isascii() and host.isprintable():  # For a str, Python would load the IDNA tables.
        name = host.strip("[]").encode("ascii")
    try:
        entries = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=flags)
    # A label is too long, or the name contains a NUL. Brokers can return any name.
    except ValueError as error:
        raise OSError(f"{host!r} is not a valid host name: {error}") from error
    return list(dict.fromkeys((int(entry[0]), entry[4]) for entry in entries))


def literal(host: str, port: int) -> list[Address] | None:
    """Return the address if the host is an IP address, or None for a name; does not block.

    Raises:
        OSError: host or port is invalid.
    """
    try:
        return resolve(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        return None
