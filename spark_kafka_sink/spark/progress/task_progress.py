"""What a task tells of its progress: one datagram, which holds everything so far."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any


class WaitsFor(StrEnum):
    """What a task waits for, most of all."""

    SPARK = "rows from Spark"
    KAFKA_ROOM = "room in the buffer, as Kafka takes less than Spark gives"
    CONNECTION = "a connection to a broker"
    ACKNOWLEDGEMENT = "the last acknowledgements"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """Counters of one task attempt since its start."""

    partition_id: int
    """The partition of the DataFrame."""
    task_attempt_id: int
    """Spark's id of this attempt."""
    elapsed_ms: int = 0
    """Since the attempt began."""
    rows: int = 0
    """Rows taken over from Spark."""
    persisted: int = 0
    """Records acknowledged."""
    sent: int = 0
    """Records sent with acks=0."""
    would_be_written: int = 0
    """Records of a dry run."""
    bytes_sent: int = 0
    """Bytes of those, after compression."""
    retries: int = 0
    """Batches sent again."""
    waits_for: WaitsFor = WaitsFor.SPARK
    done: bool = False
    """Whether the task has ended, well or not."""

    def encode(self, token: str) -> bytes:
        """A datagram for the listener that has given this token."""
        return json.dumps({"token": token, **asdict(self)}).encode()

    @classmethod
    def decode(cls, datagram: bytes, token: str) -> TaskProgress | None:
        """Read what `encode` made; None of anything else, as anybody may send to a port."""
        from hmac import compare_digest  # tasks, which only encode, start without it

        try:
            data: dict[str, Any] = json.loads(datagram)
            if not compare_digest(str(data["token"]).encode(), token.encode()):
                return None
            values = {field.name: data[field.name] for field in fields(cls)}
            numbers = {name: int(value) for name, value in values.items() if name in _NUMBERS}
            return cls(
                waits_for=WaitsFor(values["waits_for"]),
                done=bool(values["done"]),
                **numbers,
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


_NUMBERS = frozenset(
    field.name for field in fields(TaskProgress) if field.name not in {"waits_for", "done"}
)
