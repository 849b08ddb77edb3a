"""A broker that dies before its n-th command to Redis."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from spark_kafka_sink.broker.redis.connection import RedisConnection


class ProcessKilled(BaseException):
    """Simulates the end of the process."""


@contextlib.contextmanager
def until_killed() -> Iterator[None]:
    with contextlib.suppress(ProcessKilled):
        yield


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Raise instead of sending commands, starting with the n-th; negative after the first."""
    left = [number]
    real = RedisConnection.pipeline

    def pipeline(self: RedisConnection, commands: Any) -> list[Any]:
        left[0] -= 1
        if left[0] < 0:
            raise ProcessKilled
        return real(self, commands)

    monkeypatch.setattr(RedisConnection, "pipeline", pipeline)
    return left
