"""The checks that the driver makes before any task.

With `warn`, the default, they end nothing: executors may reach what the driver does not, a broker
that restarts is back before the tasks give up, and a write of no rows needs no broker at all. What
would fail every task is told within seconds all the same. With `fail` it ends the write there.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.admin.blocking_client import BlockingClient, borrowed_client
from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.config.enums import Preflight
from spark_kafka_sink.diagnostics.examination import (
    Intent,
    connect,
    create_topic,
    judge_topics,
    quiet_log,
)
from spark_kafka_sink.diagnostics.finding import Finding, Severity, Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
    from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
    from spark_kafka_sink.config.topic_creation import TopicCreation

SECONDS: Final = 5.0
"""For which the brokers may take to answer, at most kafka.max.block.ms; creating a topic apart."""
REFUSED_S: Final = 1.0
"""Seconds after which servers that have all refused are told of, where that ends nothing."""
KEPT_S: Final = 300.0
"""Seconds for which a batch write that was checked is not checked again in the same process."""
FAILED_KEPT_S: Final = 60.0
"""The same where the check has found what would fail every task."""
MAX_KEPT: Final = 64
_LEAST_S: Final = 1.0
_OFF: Final = "If executors reach the brokers and this host does not, set preflight=off"
_NEVERTHELESS: Final = "The tasks try all the same; preflight=fail ends such a write at once"
_LOG = logging.getLogger("spark_kafka_sink")


def stopping(findings: Iterable[Finding], mode: Preflight) -> KafkaProdError | None:
    """The error that ends the write before its tasks: the first that would fail every task.

    None where there is none such, and with another mode than `fail`.
    """
    if mode is not Preflight.FAIL:
        return None
    return next((each.error for each in findings if each.severity is Severity.ERROR), None)


def told(finding: Finding) -> str:
    """A line for the log."""
    sentences = [finding.text]
    if finding.hint:
        sentences.append(finding.hint[0].upper() + finding.hint[1:])
    if finding.severity is Severity.ERROR:
        sentences.append(_NEVERTHELESS)
    return " ".join(each if each.endswith((".", "?")) else f"{each}." for each in sentences)


def examine(intent: Intent) -> list[Finding]:
    """All that there is to find out in a few seconds; with topic.create the topic is created.

    Raises:
        KafkaProdError: the topic can't be created.
    """
    config = intent.config
    mode, creates = config.preflight, config.topic_creation.create
    with _client(config) as client:
        if mode is Preflight.OFF:
            create_topic(client, config)
            return []
        seconds, start = min(SECONDS, config.producer.max_block_ms / 1000), client.now()
        with quiet_log("spark_kafka_sink.client"):
            failure = connect(client, seconds, REFUSED_S if mode is Preflight.WARN else seconds)
        if failure is not None and (mode is Preflight.FAIL or not creates):
            return [_with_way_out(failure)]
        left = max(seconds - (client.now() - start), _LEAST_S)
        create_topic(client, config)
        found = judge_topics(client, intent, left)
        if not config.exactly_once.exactly_once:
            return found
        from spark_kafka_sink.diagnostics.transactional_ids import judge_transactional_ids

        left = max(seconds - (client.now() - start), _LEAST_S)
        return found + judge_transactional_ids(client, config, left)


def _with_way_out(failure: Finding) -> Finding:
    """No connection, with what to do where the executors have one."""
    error = copy(failure.error)
    if error is None or failure.step not in {Step.RESOLVE, Step.CONNECT}:
        return failure
    error.hint = f"{error.hint}. {_OFF}"
    return replace(failure, error=error)


@contextmanager
def _client(config: SinkConfig) -> Iterator[BlockingClient]:
    """With exactly-once the planning that follows goes on with the connection."""
    if config.exactly_once.exactly_once:
        with borrowed_client(config.producer) as client:
            yield client
    else:
        with BlockingClient(config.producer) as client:
            yield client


@dataclass(frozen=True, slots=True)
class _Subject:
    """What of an intent the findings depend on."""

    producer: ProducerConfig
    preflight: Preflight
    topic: str | None
    topic_creation: TopicCreation
    dry_run: bool
    dead_letters: DeadLetterPolicy
    use_timestamp_column: bool
    transactional_id_prefix: str
    has_key: bool | None

    @classmethod
    def of(cls, intent: Intent) -> _Subject:
        config = intent.config
        return cls(
            config.producer,
            config.preflight,
            config.topic,
            config.topic_creation,
            config.dry_run,
            config.dead_letters,
            config.use_timestamp_column,
            config.exactly_once.transactional_id_prefix,
            intent.has_key,
        )


@dataclass(slots=True)
class PreflightCheck:
    """Checks the brokers before a write, once for each configuration.

    Spark plans each micro-batch of a stream anew, in a process that lives as long as the query:
    there a stream is checked once. A batch write is checked again after `KEPT_S`, or
    `FAILED_KEPT_S`.
    """

    clock: Clock = field(default_factory=SystemClock)
    examine: Callable[[Intent], list[Finding]] = examine
    _lock: Lock = field(default_factory=Lock)
    _known: dict[_Subject, float] = field(default_factory=dict)
    """Guarded by the lock. Until when a batch write is not checked, in seconds of the clock."""

    def check(self, intent: Intent, *, of_stream: bool = False, only_errors: bool = False) -> None:
        """Create the topic where that is asked for, and log what is wrong.

        Args:
            intent: what is to be written.
            of_stream: a micro-batch is planned, and not a batch write.
            only_errors: log nothing that some tasks may get by with.

        Raises:
            KafkaProdError: with preflight=fail every task would fail; or the topic can't be
                created.
        """
        mode, creates = intent.config.preflight, intent.config.topic_creation.create
        if mode is Preflight.OFF and not creates:
            return
        subject = _Subject.of(intent)
        if self._is_known(subject, of_stream=of_stream):
            return
        findings = self._examine(intent)
        error = stopping(findings, mode)
        if error is not None:
            raise copy(error)
        for finding in findings:
            if finding.severity is Severity.ERROR:
                _LOG.error("preflight: %s", told(finding))
            elif finding.severity is Severity.WARNING and not only_errors:
                _LOG.warning("preflight: %s", told(finding))
        failed = any(finding.severity is Severity.ERROR for finding in findings)
        self._keep(subject, FAILED_KEPT_S if failed else KEPT_S)

    def _examine(self, intent: Intent) -> list[Finding]:
        """What was found; with `warn` a check that can't be made is a doubt.

        The driver may lack what executors have, such as a truststore.
        """
        try:
            return self.examine(intent)
        except Exception as error:
            if intent.config.preflight is not Preflight.WARN or intent.config.topic_creation.create:
                raise
            if not isinstance(error, KafkaProdError):  # whose text may hold anything
                error = KafkaProdError(f"the check failed: {type(error).__name__}")
            return [Finding.warning(Step.OPTIONS, error, local=True)]

    def _is_known(self, subject: _Subject, *, of_stream: bool) -> bool:
        with self._lock:
            until = self._known.get(subject)
        return until is not None and (of_stream or self.clock.monotonic() < until)

    def _keep(self, subject: _Subject, seconds: float) -> None:
        with self._lock:
            self._known.pop(subject, None)
            self._known[subject] = self.clock.monotonic() + seconds
            while len(self._known) > MAX_KEPT:
                del self._known[next(iter(self._known))]


PREFLIGHT = PreflightCheck()
"""Of this process."""
