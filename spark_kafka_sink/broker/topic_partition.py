"""The type that identifies a topic-partition, used as a dictionary key."""

from __future__ import annotations

from typing import TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""A topic name and a partition index."""
