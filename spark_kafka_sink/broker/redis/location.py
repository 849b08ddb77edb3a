"""Where in a Redis a broker keeps its data: what the URL of `--storage` says."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from spark_kafka_sink.broker.redis.entry_ids import DEFAULT_SEQUENCE_BITS, EntryIds
from spark_kafka_sink.common.errors import ConfigError

SCHEMES: Final = ("redis", "rediss", "unix")
DEFAULT_PREFIX: Final = "korvet"
DEFAULT_TIMEOUT_MS: Final = 2_000
_GLOB: Final = re.compile(r"[][*?^\\-]")
_ESCAPED: Final = r"\\\g<0>"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisLocation:
    """A Redis and the names of the keys in it.

    Args:
        url: as redis-py takes it; it may hold a password, so it is never shown.
        address: the URL without user, password and query, for messages.
        prefix: what all keys begin with.
        ids: how offsets and entry ids correspond.
        replicas: Redis replicas that acks=all waits for (the command WAIT).
        timeout_ms: how long one answer of Redis may take.
    """

    url: str = field(repr=False)
    address: str
    prefix: str = DEFAULT_PREFIX
    ids: EntryIds = field(default_factory=EntryIds)
    replicas: int = 0
    timeout_ms: int = DEFAULT_TIMEOUT_MS

    @classmethod
    def parse(cls, url: str) -> RedisLocation:
        """Read ``redis://host:port/db?prefix=…&sequence_bits=…&replicas=…&timeout_ms=…``.

        Other parameters of the query are left to redis-py.

        Raises:
            ConfigError: it is no such URL.
        """
        parts = urlsplit(url)
        if parts.scheme not in SCHEMES:
            raise ConfigError(
                f"the storage {parts.scheme or url!r} is not known",
                hint="Give log, or redis://host:port/db?prefix=name",
            )
        query = dict(parse_qsl(parts.query))
        prefix = query.pop("prefix", DEFAULT_PREFIX)
        numbers = {
            "sequence_bits": DEFAULT_SEQUENCE_BITS,
            "replicas": 0,
            "timeout_ms": DEFAULT_TIMEOUT_MS,
        }
        numbers |= {name: _number(name, query.pop(name)) for name in numbers if name in query}
        where = parts.netloc.rpartition("@")[2]
        return cls(
            url=urlunsplit(parts._replace(query=urlencode(query))),
            address=f"{parts.scheme}://{where}{parts.path}",
            prefix=prefix,
            ids=EntryIds(numbers["sequence_bits"]),
            replicas=numbers["replicas"],
            timeout_ms=max(numbers["timeout_ms"], 1),
        )

    def stream(self, topic: str, partition: int) -> str:
        """The stream of a partition's records."""
        return f"{self.prefix}:{topic}:{partition}"

    def batches(self, topic: str, partition: int) -> str:
        """The stream of the headers of a partition's batches: no topic has an empty name."""
        return f"{self.prefix}::batches:{topic}:{partition}"

    @property
    def journal(self) -> str:
        """The hash of what the cluster knows besides its logs."""
        return f"{self.prefix}::journal"

    @property
    def pattern(self) -> str:
        """What matches all keys, for SCAN."""
        return f"{_GLOB.sub(_ESCAPED, self.prefix)}:*"


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ConfigError(f"{name}={text} in the storage URL is no number", hint="Give a number")
    return int(text)
