"""What a child process of these tests is to write, and with which secrets."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = "events"
SHOWN = "shown.txt"
CONSOLE = "console.txt"
LOG = "spark.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A job: a batch by each way in, a stream, and both once more in vain.

    `logins` are options that open the broker's door in different ways, `wrong` those that don't.
    `settings` are the Spark session's own.
    """

    format: str
    logins: list[dict[str, str]]
    wrong: dict[str, str]
    mistyped: dict[str, str]
    settings: dict[str, str] = field(default_factory=dict)
    sql: bool = False
    connect: bool = False

    def write(self, file: Path) -> None:
        """Keep the plan, secrets and all, where the child finds it."""
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, file: Path) -> Plan:
        """Take the plan; the file is gone then."""
        plan = cls(**json.loads(file.read_text()))
        file.unlink()
        return plan
