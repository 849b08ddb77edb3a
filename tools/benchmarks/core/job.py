"""The job description of a contestant in the core benchmark."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path


class Kind(StrEnum):
    """Kind of record: plain, with a key, or with a key and headers."""

    PLAIN = "plain"
    KEYED = "keyed"
    HEADERS = "headers"
    """Records with a key and two headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Send `warmup` records and `records` measured records from the lines of a payload file.

    `options` are settings of the producer, with the producer's own names. Only the core supports
    kinds other than plain records.
    """

    bootstrap_servers: str
    topic: str
    payload: Path
    warmup: int
    records: int
    options: dict[str, str] = field(default_factory=dict)
    kind: Kind = Kind.PLAIN

    def to_json(self) -> str:
        """Serialize the job for a command line."""
        return json.dumps({**asdict(self), "payload": str(self.payload)})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Parse the output of `to_json`."""
        job = cls(**json.loads(text))
        return replace(job, payload=Path(job.payload), kind=Kind(job.kind))
