"""Where tasks send their progress to: a file that the watching Python leaves for the planner."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_NAME = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressAddress:
    """A UDP port of the driver's Python, and how often it wants to hear of each task."""

    host: str
    port: int
    token: str = field(repr=False)
    """What a datagram must hold, so that strangers' are not counted."""
    interval_s: float

    def publish(self, folder: Path) -> None:
        """Let the planner find it; it replaces an earlier one at once."""
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{_NAME}-{self.port}"
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(folder / _NAME)

    @staticmethod
    def withdraw(folder: Path) -> None:
        """Nobody watches any more."""
        (folder / _NAME).unlink(missing_ok=True)

    @classmethod
    def find(cls, folder: Path | None) -> ProgressAddress | None:
        """That of who watches, if anybody does; it never fails a write."""
        if folder is None:
            return None
        try:
            return cls(**json.loads((folder / _NAME).read_text()))
        except (OSError, ValueError, TypeError):
            return None
