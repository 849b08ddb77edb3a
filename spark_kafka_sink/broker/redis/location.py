"""The storage URL of a Redis server."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode

from spark_kafka_sink.broker.redis.entries import DEFAULT_SEQUENCE_BITS, EntryIds
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import redact_uri, safe_repr
from spark_kafka_sink.config.option_parser import parse_url

_SCHEMES = ("redis", "rediss", "unix")
_DEFAULT_PREFIX = "korvet"
"""Korvet, which also stores the records of Kafka clients in Redis, has the same default prefix."""
_DEFAULT_TIMEOUT_MS = 2_000
_GLOB = re.compile(r"[][*?^\\-]")
_ESCAPED = r"\\\g<0>"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLocation:
    """The address of a Redis server, and the names of the broker's keys on it."""

    url: str = field(repr=False)
    """The URL for redis-py, which is never shown, because it can contain a password."""
    address: str
    """The URL without user, password and query, for messages."""
    prefix: str = _DEFAULT_PREFIX
    """The prefix of all keys."""
    ids: EntryIds = field(default_factory=EntryIds)
    """The mapping between offsets and entry ids."""
    replicas: int = 0
    """Number of Redis replicas for which acks=all waits (the command WAIT)."""
    timeout_ms: int = _DEFAULT_TIMEOUT_MS
    """Timeout in milliseconds for each reply from Redis."""

    @classmethod
    def parse(cls, url: str) -> RedisLocation:
        """Parse ``redis://host:port/db?prefix=…&sequence_bits=…&replicas=…&timeout_ms=…``.

        Other query parameters are passed to redis-py.

        Raises:
            ConfigError: the URL is invalid.
        """
        parts = parse_url(url)
        if parts.scheme not in _SCHEMES:
            raise ConfigError(
                f"unknown storage {parts.scheme or safe_repr(redact_uri(url))}",
                hint="Set log, or redis://host:port/db?prefix=name.",
            )
        query = dict(parse_qsl(parts.query))
        prefix = query.pop("prefix", _DEFAULT_PREFIX)
        numbers = {
            "sequence_bits": DEFAULT_SEQUENCE_BITS,
            "replicas": 0,
            "timeout_ms": _DEFAULT_TIMEOUT_MS,
        }
        numbers |= {name: _parse_number(name, query.pop(name)) for name in numbers if name in query}
        # urlunsplit would return unix:/path, which redis-py rejects.
        base = f"{parts.scheme}://{parts.netloc}{parts.path}"
        where = parts.netloc.rpartition("@")[2]
        return cls(
            url=f"{base}?{urlencode(query)}" if query else base,
            address=f"{parts.scheme}://{where}{parts.path}",
            prefix=prefix,
            ids=EntryIds(numbers["sequence_bits"]),
            replicas=numbers["replicas"],
            timeout_ms=max(numbers["timeout_ms"], 1),
        )

    def stream(self, topic: str, partition: int) -> str:
        """Return the key of the stream that contains a partition's records."""
        return f"{self.prefix}:{topic}:{partition}"

    def batches(self, topic: str, partition: int) -> str:
        """Return the key of the stream that contains a partition's batch headers.

        The key differs from those of all record streams, because topic names cannot be empty.
        """
        return f"{self.prefix}::batches:{topic}:{partition}"

    @property
    def journal(self) -> str:
        """The key of the hash that contains the cluster metadata (everything except the logs)."""
        return f"{self.prefix}::journal"

    @property
    def pattern(self) -> str:
        """The SCAN pattern that matches all keys of the broker."""
        return f"{_GLOB.sub(_ESCAPED, self.prefix)}:*"


def _parse_number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"{name}={text} in the storage URL is not a number", hint="Set a number.")
    return int(text)
