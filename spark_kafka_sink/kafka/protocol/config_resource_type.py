"""Kafka's ConfigResource.Type, which client and broker share."""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """Types of resources that have configs, with their numbers in requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32
