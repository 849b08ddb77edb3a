"""A topic that is to be made, and why it may not be."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kio.schema.errors import ErrorCode

DEFAULT = -1
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether a topic may have a name (Kafka's Topic.validate)."""
    return name not in {".", ".."} and _NAME.fullmatch(name) is not None


class TopicError(Exception):
    """A topic can't be made or found.

    Args:
        error: Kafka's code for it.
        message: what is wrong, for the response.
    """

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be made; -1 stands for the broker's default.

    `assignments` are the nodes of each partition, where they are not left to the broker.
    """

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)
