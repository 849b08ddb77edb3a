"""The writes of a child process and their secrets."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

EVENTS = "events"
SHOWN = "shown.txt"
CONSOLE = "console.txt"
LOG = "spark.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A job: a batch with each login and a stream, and failing batches and streams.

    `logins` are options with valid logins, `wrong` options with an invalid login. `settings` are
    those of the Spark session.
    """

    format: str
    logins: list[dict[str, str]]
    wrong: dict[str, str]
    mistyped: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)
    sql: bool = False
    connect: bool = False

    def write(self, file: Path) -> None:
        """Write the plan with its secrets to a file for the child process."""
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, file: Path) -> Plan:
        """Read the plan and delete the file."""
        plan = cls(**json.loads(file.read_text()))
        file.unlink()
        return plan
