"""Scopes of exactly-once writes, and functions that build, parse and match transactional ids.

=======  =================================  ====================================================
scope    driver's id, key in the log        task's id
=======  =================================  ====================================================
stream   ``prefix/stream``                  ``prefix/stream/query/17/nonce/partition/attempt``
batch    ``prefix/batch/7/topic=events``    ``prefix/batch/7/topic=events/nonce/…``
run      ``prefix/run/id``                  ``prefix/run/id/nonce/partition/attempt``
=======  =================================  ====================================================

If each row specifies its topic, the id contains ``topic-column`` instead of ``topic=events``. If
the write has a writeName, such as late, ``/name=late`` follows.

With atomicBatch=true, all tasks write in one transaction, which has the driver's id. In addition,
the first attempt for each Spark partition claims an id: a task's id without the attempt, such as
``prefix/stream/query/17/nonce/partition``. Such an id never has a transaction.

``abort()`` creates one more id, the abort flag: the driver's id followed by a nonce, such as
``prefix/stream/nonce``. Once it exists, no task of that planning begins a transaction.

A prefix contains no "/", and "/" is escaped in a batchId, topic or name, so each id belongs to
exactly one scope.
The nonce is created when the write is planned, and the attempt is Spark's taskAttemptId: no two
attempts ever share an id, even if a stage runs again or a paused attempt resumes late. The query is
part of the id because batch numbers of two queries cannot be compared: each starts at 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from secrets import token_hex
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from spark_kafka_sink.config.exactly_once import check_batch_id, check_prefix

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

_NONCE_BYTES = 8
_SAFE = "-._~:+=@,"
"""Characters of a batchId that are not escaped, in addition to letters and digits."""
_NAME = r"(?:[A-Za-z0-9._~:+=@,-]|%[0-9A-F]{2})+"
_PREFIX = r"[A-Za-z0-9._-]+"
_NONCE = rf"[0-9a-f]{{{2 * _NONCE_BYTES}}}"
_TOPIC_COLUMN = "topic-column"
_DESTINATION = rf"/(?:topic=({_NAME})|{_TOPIC_COLUMN})(?:/name=({_NAME}))?"
_NAMED = rf"(batch|run)/({_NAME})({_DESTINATION})?"
_DRIVER = re.compile(rf"({_PREFIX})/(?:(stream)|{_NAMED})")
_TASK = re.compile(
    rf"({_PREFIX})/(?:stream/({_NAME})/([0-9]+)|{_NAMED})/({_NONCE})/([0-9]+)/([0-9]+)"
)


class ScopeKind(StrEnum):
    """The kind of write that a scope covers; its value is part of transactional ids and keys."""

    STREAM = "stream"
    """All micro-batches of the query that runs under a prefix."""
    BATCH = "batch"
    """All runs of one write with a batchId."""
    RUN = "run"
    """One run of a batch job without a batchId."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDestination:
    """Topic and name that distinguish writes with the same batchId.

    A foreachBatch function may write to several topics with one batchId.
    """

    topic: str | None = None
    """Value of the option topic; None if each row specifies its topic."""
    name: str | None = None
    """Value of the option writeName; None if it is not set."""

    def __str__(self) -> str:
        """Describe the destination for messages, such as "to topic x" or "named y to topic x"."""
        target = "to the topics of its rows" if self.topic is None else f"to topic {self.topic}"
        return target if self.name is None else f"named {self.name} {target}"


_ANY_TOPIC = WriteDestination()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The unit of fencing, which has one record in the decision log.

    Two batch jobs with different batchIds are two scopes, so neither can fence the other. The same
    applies to two writes with the same batchId and different destinations.
    """

    kind: ScopeKind
    prefix: str
    """Value of the option transactionalIdPrefix."""
    name: str = ""
    """The batchId, or the random id of a run; empty for a stream."""
    destination: WriteDestination | None = None
    """Destination of a batch; None for a stream or a run."""

    @classmethod
    def stream(cls, prefix: str) -> Self:
        """Return the scope of a streaming query."""
        check_prefix(prefix)
        return cls(kind=ScopeKind.STREAM, prefix=prefix)

    @classmethod
    def batch(cls, prefix: str, batch_id: str, destination: WriteDestination = _ANY_TOPIC) -> Self:
        """Return the scope of a batch write with a batchId.

        Raises:
            ConfigError: the prefix or the batchId cannot be part of a transactional id.
        """
        check_prefix(prefix)
        check_batch_id(batch_id)
        return cls(kind=ScopeKind.BATCH, prefix=prefix, name=batch_id, destination=destination)

    @classmethod
    def run(cls, prefix: str) -> Self:
        """Return a new scope for one run of a batch job without a batchId."""
        check_prefix(prefix)
        return cls(kind=ScopeKind.RUN, prefix=prefix, name=token_hex(8))

    def __str__(self) -> str:
        """Return text for messages, such as "stream orders" or "batch 7 of orders to topic a"."""
        if self.kind is ScopeKind.STREAM:
            return f"stream {self.prefix}"
        text = f"{self.kind.value} {self.name} of {self.prefix}"
        return text if self.destination is None else f"{text} {self.destination}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTransactionalId:
    """The parts of the transactional id of one task attempt."""

    scope: Scope
    query_id: str | None
    """Id of the streaming query; None in a batch job."""
    batch: str
    """Batch number of a stream; otherwise the name of the scope."""
    nonce: str
    partition: int
    """Number of the Spark partition."""
    task_attempt_id: int

    @property
    def claim_id(self) -> str:
        """The id that only one attempt for this Spark partition can claim (atomicBatch=true)."""
        base = driver_transactional_id(self.scope)
        if self.scope.kind is ScopeKind.STREAM:
            base = f"{base}/{_quote_part(self.query_id or '')}/{self.batch}"
        return f"{base}/{self.nonce}/{self.partition}"

    def __str__(self) -> str:
        """Return the id as sent to Kafka."""
        return f"{self.claim_id}/{self.task_attempt_id}"


def new_nonce() -> str:
    """Return 16 random hex digits that identify one planning of a write."""
    return token_hex(_NONCE_BYTES)


def driver_transactional_id(scope: Scope) -> str:
    """Return the driver's transactional id, which is also the scope's key in the decision log."""
    base = f"{scope.prefix}/{scope.kind.value}"
    if scope.kind is ScopeKind.STREAM:
        return base
    return f"{base}/{_quote_part(scope.name)}{_destination_id(scope.destination)}"


def abort_flag_id(scope: Scope, nonce: str) -> str:
    """Return the id that exists once the driver has aborted the planning with this nonce.

    The id contains neither batch nor query, because abort() cannot determine the query if no task
    has reported a result.
    """
    return f"{driver_transactional_id(scope)}/{nonce}"


def parse_driver_id(text: str) -> Scope | None:
    """Return the scope whose driver has this id, or None if it is not a driver's id."""
    match = _DRIVER.fullmatch(text)
    if match is None:
        return None
    prefix, stream, *run_or_batch = match.groups()
    if stream:
        return Scope(kind=ScopeKind.STREAM, prefix=prefix)
    return _named_scope(prefix, *run_or_batch)


def parse_task_id(text: str) -> TaskTransactionalId | None:
    """Parse a task's id; return None for any other id."""
    match = _TASK.fullmatch(text)
    if match is None:
        return None
    prefix, query, batch, *run_or_batch, nonce, partition, attempt = match.groups()
    if query is None:
        scope, query_id = _named_scope(prefix, *run_or_batch), None
    else:
        scope, query_id = Scope(kind=ScopeKind.STREAM, prefix=prefix), _unquote_part(query)
    if scope is None or (query is not None and query_id is None):
        return None
    return TaskTransactionalId(
        scope=scope,
        query_id=query_id,
        batch=scope.name if batch is None else batch,
        nonce=nonce,
        partition=int(partition),
        task_attempt_id=int(attempt),
    )


def nonces_of(transactions: Iterable[TaskTransaction]) -> frozenset[str]:
    """Return the planning nonces that the ids of these transactions contain."""
    parsed = (parse_task_id(transaction.transactional_id) for transaction in transactions)
    return frozenset(task_id.nonce for task_id in parsed if task_id is not None)


def tasks_pattern(scope: Scope) -> str:
    """Return an RE2 pattern that matches the ids of the scope's tasks, for ListTransactions."""
    base = re.escape(driver_transactional_id(scope))
    batch = f"/{_NAME}/[0-9]+" if scope.kind is ScopeKind.STREAM else ""
    return f"^{base}{batch}/{_NONCE}/[0-9]+/[0-9]+$"


def prefix_pattern(prefix: str) -> str:
    """Return an RE2 pattern that matches all driver and task ids with a prefix."""
    return f"^{re.escape(prefix)}/(stream|batch|run)(/.*)?$"


def _destination_id(destination: WriteDestination | None) -> str:
    """Return the suffix of a driver's id for this destination; empty without one."""
    if destination is None:
        return ""
    topic = (
        _TOPIC_COLUMN if destination.topic is None else f"topic={_quote_part(destination.topic)}"
    )
    return (
        f"/{topic}"
        if destination.name is None
        else f"/{topic}/name={_quote_part(destination.name)}"
    )


def _named_scope(
    prefix: str, kind: str, name: str, destination: str | None, topic: str | None, write: str | None
) -> Scope | None:
    """Return the scope, or None if `driver_transactional_id` would not produce this id."""
    quoted = [part for part in (name, topic, write) if part is not None]
    if None in map(_unquote_part, quoted) or (destination is None) == (kind == ScopeKind.BATCH):
        return None
    return Scope(
        kind=ScopeKind(kind),
        prefix=prefix,
        name=unquote(name),
        destination=WriteDestination(topic=topic and unquote(topic), name=write and unquote(write))
        if destination
        else None,
    )


def _quote_part(name: str) -> str:
    return quote(name, safe=_SAFE)


def _unquote_part(name: str) -> str | None:
    """Return the unescaped name, or None if `_quote_part` would not produce this text."""
    try:
        text = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return None
    return text if _quote_part(text) == name else None
