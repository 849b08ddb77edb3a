"""The checks that the driver makes before any task, and which findings end the write there.

What would fail every task ends it at once: refused servers and logins, a topic that is not there
and can't be, a right that is missing. What may be otherwise on an executor, or concern some rows
alone, is a warning. A server that refuses connections, or whose name nobody knows, is the same for
executors but in rare networks; one that does not answer may be behind a firewall of the driver's.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.admin.blocking_client import BlockingClient
from spark_kafka_sink.admin.client_pool import borrowed_client
from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.config.enums import Preflight
from spark_kafka_sink.diagnostics.examination import Intent, connect, create_topic, judge_topics
from spark_kafka_sink.diagnostics.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.config.model import SinkConfig

SECONDS: Final = 5.0
"""For which a server may take to answer, at most kafka.max.block.ms; a second time for the topics.
"""
KEPT_S: Final = 300.0
"""Seconds for which a batch write that was checked is not checked again in the same process."""
MAX_KEPT: Final = 8
_LOG = logging.getLogger("spark_kafka_sink")


def stopping(findings: Iterable[Finding], mode: Preflight) -> KafkaProdError | None:
    """The error that ends the write before its tasks, None where none does.

    With `warn` it is the first finding that is certain to hold on every host, with `fail` the first
    that is not fine.
    """
    found = list(findings)
    failures = [each for each in found if each.severity is Severity.ERROR]
    if mode is Preflight.FAIL:
        failures += [each for each in found if each.severity is Severity.WARNING]
    else:
        failures = [each for each in failures if not each.local]
    return failures[0].error if failures else None


def told(finding: Finding) -> str:
    """A line for the log."""
    stop = "" if finding.text.endswith("?") else "."
    return f"{finding.text}{stop} {finding.hint}" if finding.hint else finding.text


def examine(intent: Intent) -> list[Finding]:
    """All that there is to find out in a few seconds; with topic.create the topic is created.

    Raises:
        KafkaProdError: the topic can't be created.
    """
    config = intent.config
    seconds = min(SECONDS, config.producer.max_block_ms / 1000)
    with _client(config) as client:
        if config.preflight is Preflight.OFF:
            create_topic(client, config)
            return []
        failure = connect(client, seconds)
        if failure is not None:
            return [failure]
        create_topic(client, config)
        return judge_topics(client, intent, seconds)


@contextmanager
def _client(config: SinkConfig) -> Iterator[BlockingClient]:
    """With exactly-once the planning that follows goes on with the connection."""
    if config.exactly_once.exactly_once:
        with borrowed_client(config.producer) as client:
            yield client
    else:
        with BlockingClient(config.producer) as client:
            yield client


@dataclass(slots=True)
class PreflightCheck:
    """Checks the brokers before a write, once for each configuration.

    Spark plans each micro-batch of a stream anew, in a process that lives as long as the query:
    what has passed there once ends no stream any more. A batch write is checked again after
    `KEPT_S`.
    """

    clock: Clock = field(default_factory=SystemClock)
    examine: Callable[[Intent], list[Finding]] = examine
    _lock: Lock = field(default_factory=Lock)
    _passed: dict[Intent, float] = field(default_factory=dict)
    """Guarded by the lock. When each passed, in seconds of the clock."""

    def check(self, intent: Intent, *, of_stream: bool = False) -> None:
        """Create the topic where that is asked for, and log what is doubtful.

        Args:
            intent: what is to be written.
            of_stream: a micro-batch is planned, and not a batch write.

        Raises:
            KafkaProdError: every task would fail; with preflight=fail also where some might.
        """
        mode, creates = intent.config.preflight, intent.config.topic_creation.create
        if mode is Preflight.OFF and not creates:
            return
        if self._is_known(intent, of_stream=of_stream):
            return
        findings = self.examine(intent)
        error = stopping(findings, mode)
        if error is not None:
            raise copy(error)
        for finding in findings:
            if finding.severity in {Severity.WARNING, Severity.ERROR}:
                _LOG.warning("preflight: %s", told(finding))
        self._keep(intent)

    def _is_known(self, intent: Intent, *, of_stream: bool) -> bool:
        with self._lock:
            passed = self._passed.get(intent)
        if passed is None:
            return False
        return of_stream or self.clock.monotonic() - passed < KEPT_S

    def _keep(self, intent: Intent) -> None:
        with self._lock:
            self._passed.pop(intent, None)
            self._passed[intent] = self.clock.monotonic()
            while len(self._passed) > MAX_KEPT:
                del self._passed[next(iter(self._passed))]


PREFLIGHT = PreflightCheck()
"""Of this process."""
