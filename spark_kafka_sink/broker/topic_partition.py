"""A topic's partition, as the broker's dictionaries have it for a key."""

from __future__ import annotations

from typing import TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and a partition's index."""
