"""What a topic may be called (Kafka's ``Topic.validate``)."""

from __future__ import annotations

import re

TOPIC_NAMES = "Use 1 to 249 ASCII letters, digits, dots, underscores and hyphens."
"""What is allowed, as a hint."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def is_topic_name(name: str) -> bool:
    """Whether a topic can have this name: not empty, "." or "..", too long, of other characters."""
    return name not in (".", "..") and _NAME.fullmatch(name) is not None
