"""What a contestant of the core benchmark is told to do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Send `warmup` records, then `records` that count, from the lines of a payload file.

    `options` are the producer's own settings by the names of its own configuration.
    """

    bootstrap_servers: str
    topic: str
    payload: Path
    warmup: int
    records: int
    options: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """For a command line."""
        return json.dumps({**asdict(self), "payload": str(self.payload)})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """The reverse of `to_json`."""
        job = cls(**json.loads(text))
        return replace(job, payload=Path(job.payload))
