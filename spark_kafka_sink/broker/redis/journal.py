"""What a broker with its data in Redis knows besides its logs: one hash there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.storage.journal import Journal

if TYPE_CHECKING:
    from spark_kafka_sink.broker.redis.connection import RedisConnection
    from spark_kafka_sink.broker.storage.journal import Key


class RedisJournal(Journal):
    """A `Journal` whose lines are fields of a hash: [kind, key…] in JSON, and the value in JSON.

    Raises:
        OSError: Redis can't be asked.
    """

    __slots__ = ("_connection", "_hash")

    def __init__(self, connection: RedisConnection, name: str) -> None:
        super().__init__()
        self._connection = connection
        self._hash = name
        flat = connection.call("HGETALL", name)
        for field, value in zip(flat[::2], flat[1::2], strict=True):
            kind, *key = json.loads(field)
            self._take(kind, tuple(key), json.loads(value))

    def put(self, kind: str, key: Key, value: Any) -> None:
        """See `Journal`; OSError when Redis does not take it."""
        field = json.dumps([kind, *key])
        if value is None:
            self._connection.call("HDEL", self._hash, field)
        else:
            self._connection.call("HSET", self._hash, field, json.dumps(value))
        self._take(kind, key, value)

    def close(self) -> None:
        """Nothing: the connection is not the journal's alone."""
