"""Where each node listens, and the address that clients are told (Kafka's advertised.listeners).

The two differ where a container, NAT or a proxy stands between.
"""

from __future__ import annotations

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.addresses import parse_addresses, secured_protocols

_ANY = frozenset({"", "0.0.0.0", "::"})
"""Hosts that mean every address of the machine: nobody can connect to them from elsewhere."""
_LOOPBACK = "127.0.0.1"
_ALWAYS = ("localhost", _LOOPBACK, "::1")


def check_listeners(host: str, advertised_listeners: str | None, nodes: int) -> None:
    """See whether clients can be told an address of each node.

    Raises:
        ConfigError: the host is none that can be announced, or the addresses are not one a node.
    """
    if advertised_listeners is None:
        if host in _ANY:
            raise ConfigError(
                f"host {host or chr(39) * 2} can't be announced to clients",
                hint="Say with advertised_listeners (--advertised-listeners) what host:port "
                "clients reach it at",
            )
        return
    told = parse_addresses(advertised_listeners, "advertised_listeners")
    if len(told) != nodes:
        raise ConfigError(
            f"advertised_listeners has {len(told)} addresses for {nodes} nodes",
            hint="Give one host:port for each node, in their order, separated by commas",
        )


def check_protocols(advertised_listeners: str | None, protocol: str) -> None:
    """See whether the addresses promise clients what the broker speaks.

    Raises:
        ConfigError: an address has another protocol before it, as in SASL_SSL://host:port.
    """
    others = secured_protocols(advertised_listeners or "") - {protocol}
    if others:
        raise ConfigError(
            f"advertised_listeners has {min(others)}, but the broker speaks {protocol}",
            hint="Leave the protocols out, and say with tls and sasl what the broker speaks",
        )


def advertised(
    host: str, advertised_listeners: str | None, ports: dict[int, int]
) -> dict[int, tuple[str, int]]:
    """What clients are told of each node; `ports` are those that the nodes listen on."""
    if advertised_listeners is None:
        return {node: (host, port) for node, port in ports.items()}
    told = parse_addresses(advertised_listeners, "advertised_listeners")
    return {node: _split(address) for node, address in zip(ports, told, strict=True)}


def reachable(host: str) -> str:
    """A host to connect to from this machine, for one that is listened on."""
    return _LOOPBACK if host in _ANY else host


def certificate_hosts(host: str, advertised_listeners: str | None) -> tuple[str, ...]:
    """Names and addresses that clients may know the nodes by: what a certificate has to say."""
    names = [*_ALWAYS, host]
    if advertised_listeners is not None:
        told = parse_addresses(advertised_listeners, "advertised_listeners")
        names += [_split(address)[0] for address in told]
    return tuple(dict.fromkeys(name for name in names if name not in _ANY))


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
