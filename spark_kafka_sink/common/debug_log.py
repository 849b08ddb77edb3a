"""The events of kafka.debug, logged through `logging`.

Each context has a logger, `spark_kafka_sink.debug.<context>`. The contexts have librdkafka's names.
An event is one message: its name, followed by fields as name=value. The ids in the fields make it
possible to follow a batch::

    msg append   session=.. partition=t-0 batch=7 records=..     rows were added to an open batch
    msg close    session=.. partition=t-0 batch=7 reason=full    the batch was closed
    msg send     session=.. partition=t-0 batch=7 base_sequence=.. broker=1 correlation=12
    protocol send / protocol receive   client=.. broker=1 correlation=12
    msg response session=.. partition=t-0 batch=7 broker=1 correlation=12 error=NONE offset=..

No event contains a key, a value, a header or a credential.
"""

from __future__ import annotations

import logging
import os
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.logs import visible_logger
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.common.similar_names import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_ROOT = "spark_kafka_sink.debug"
ALL = "all"
_SYNONYMS = {"auth": "security", "feature": "broker"}
"""Alternative names of contexts, from librdkafka's documentation."""
_WITHOUT_EVENTS = frozenset(
    {
        "generic",
        "cgrp",
        "fetch",
        "interceptor",
        "plugin",
        "consumer",
        "admin",
        "mock",
        "assignor",
        "conf",
        "telemetry",
    }
)
"""Contexts of librdkafka that have no events in this producer. They are accepted and ignored."""
_numbers = count(1)
Emit: TypeAlias = "Callable[..., None]"
"""A function that logs one event, given its name and its fields as keyword arguments."""


class DebugContext(StrEnum):
    """A group of events that can be logged."""

    BROKER = "broker"
    """Connections: opened, ready, throttled, or closed with the reason."""
    METADATA = "metadata"
    """Metadata requests, and the changes in their responses."""
    TOPIC = "topic"
    """Changes of a topic's partitions and their leaders."""
    QUEUE = "queue"
    """The buffer: waits for free memory, and batches that are compressed, split or corrected."""
    MSG = "msg"
    """A batch, from append to response."""
    PROTOCOL = "protocol"
    """All requests and responses, with their size and time."""
    EOS = "eos"
    """The idempotent producer: producer ids, epochs, sequence numbers."""
    SECURITY = "security"
    """The security protocol of connections, and the authentication."""


class DebugLog:
    """One function for each context, which logs events; None if the context is disabled.

    For a disabled context, only the check for None has a cost.

    Args:
        contexts: the enabled contexts.
        ids: the first fields of every event.
    """

    __slots__ = tuple(DebugContext)

    broker: Emit | None
    metadata: Emit | None
    topic: Emit | None
    queue: Emit | None
    msg: Emit | None
    protocol: Emit | None
    eos: Emit | None
    security: Emit | None

    def __init__(self, contexts: Iterable[DebugContext] = (), **ids: object) -> None:
        enabled = frozenset(contexts)
        for context in DebugContext:
            setattr(self, context, _emitter(context, ids) if context in enabled else None)


def parse_contexts(text: str, key: str) -> tuple[DebugContext, ...]:
    """Parse a comma-separated list of contexts, and return them in the order of `DebugContext`.

    All of librdkafka's names are accepted. `key` is the option's name, for error messages.

    Raises:
        ConfigError: a name is unknown; the hint suggests the most similar name.
    """
    listed = {name for part in text.split(",") if (name := part.strip().lower())}
    names = {_SYNONYMS.get(name, name) for name in listed} - _WITHOUT_EVENTS
    known = {*DebugContext, ALL}
    for name in sorted(names - known):
        raise ConfigError(
            f"option {key} contains {safe_repr(name)}; allowed: {', '.join(DebugContext)}, {ALL}",
            hint=did_you_mean(name, known),
        )
    return tuple(context for context in DebugContext if context in names or ALL in names)


def new_id() -> str:
    """Return a short id of a client or session, unique on this host while the process runs."""
    return f"{os.getpid()}-{next(_numbers)}"


def _emitter(context: DebugContext, ids: dict[str, Any]) -> Emit:
    logger = visible_logger(f"{_ROOT}.{context}", logging.DEBUG)

    def emit(event: str, **fields: object) -> None:
        pairs = " ".join(f"{name}={value}" for name, value in {**ids, **fields}.items())
        logger.debug("%s %s", event, pairs)

    return emit
