"""The checks that the driver runs before any task.

With preflight=auto, the default, the checks fail the write if a broker responds that a topic is
missing, a permission is denied, or the login is wrong. If the driver cannot reach any broker, it
only logs the problem: executors might reach brokers that the driver cannot reach, and a restarting
broker might be available again before the tasks time out. With preflight=warn, the checks never
fail the write. With preflight=fail, every problem that would fail all tasks also fails the write.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.logs import quiet_log
from spark_kafka_sink.config.enums import PreflightMode
from spark_kafka_sink.diagnostics import broker_checks
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, borrowed_client
from spark_kafka_sink.producer.topic_creator import topics_to_create

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.diagnostics.planned_write import PlannedWrite

_TIMEOUT_S = 5.0
"""Seconds to wait for the brokers, limited by kafka.max.block.ms. Creating a topic is not included.
"""
_REFUSED_TIMEOUT_S = 1.0
"""Seconds to wait if all servers refused the connection, unless preflight=fail."""
CHECK_VALID_S = 300.0
"""Seconds after a successful check of a batch write in which the process does not repeat the check.
"""
FAILED_CHECK_VALID_S = 60.0
"""Seconds after a failed check of a batch write in which the process does not repeat the check."""
_MAX_CACHED = 64
_MIN_TIMEOUT_S = 1.0
_OFF = "If executors can reach the brokers but this host cannot, set preflight=off."
_TASKS_CONTINUE = (
    "The tasks will still try to write; with preflight=fail, such a write fails immediately"
)
_LOG = logging.getLogger(__name__)


def first_fatal_error(findings: Iterable[Finding], mode: PreflightMode) -> KafkaProdError | None:
    """Return the first error that fails the write, or None.

    With mode `fail`, errors are the findings of severity ERROR. With mode `auto`, they are only the
    ERROR findings that would be the same on every host.
    """
    if mode not in {PreflightMode.AUTO, PreflightMode.FAIL}:
        return None
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    return next(
        (finding.error for finding in errors if mode is PreflightMode.FAIL or not finding.is_local),
        None,
    )


def _describe_finding(finding: Finding) -> str:
    """Return the finding as a line for the log."""
    sentences = [finding.text]
    if finding.hint:
        sentences.append(finding.hint)
    if finding.severity is Severity.ERROR:
        sentences.append(_TASKS_CONTINUE)
    return " ".join(text if text.endswith((".", "?")) else f"{text}." for text in sentences)


def examine(write: PlannedWrite) -> list[Finding]:
    """Run the checks within a few seconds. With topic.create, also create missing topics.

    Raises:
        KafkaProdError: a topic cannot be created.
    """
    config = write.config
    mode, creates = config.preflight, config.topic_creation.create
    with _client(config) as client:
        if mode is PreflightMode.OFF:
            _create_missing_topics(client, config)
            return []
        seconds = min(_TIMEOUT_S, config.producer.max_block_ms / 1000)
        start = client.now()
        with quiet_log("spark_kafka_sink.kafka.client"):
            failure = broker_checks.connect(
                client, seconds, seconds if mode is PreflightMode.FAIL else _REFUSED_TIMEOUT_S
            )
        if failure is not None and (
            mode is PreflightMode.FAIL or not creates or not failure.is_local
        ):
            return [_with_preflight_hint(failure)]
        remaining_s = max(seconds - (client.now() - start), _MIN_TIMEOUT_S)
        _create_missing_topics(client, config)
        findings = broker_checks.check_topics(client, write, remaining_s)
        if not config.exactly_once.is_enabled:
            return findings
        remaining_s = max(seconds - (client.now() - start), _MIN_TIMEOUT_S)
        return findings + broker_checks.check_transactional_ids(client, config, remaining_s)


def _create_missing_topics(client: BlockingClient, config: SinkConfig) -> None:
    """Create the missing topics that options specify, if topic.create is true.

    Can block for max.block.ms. A dry run creates no topics.

    Raises:
        KafkaProdError: a topic cannot be created.
    """
    if config.dry_run:
        return
    for topic in topics_to_create(config):
        TopicAdmin(client).create(topic, client.deadline(config.producer.max_block_ms / 1000))


def _with_preflight_hint(failure: Finding) -> Finding:
    """Add a hint to a connection failure, for brokers that can be reached only by the executors."""
    error = copy(failure.error)
    if error is None or failure.step not in {CheckStep.RESOLVE, CheckStep.CONNECT}:
        return failure
    error.hint = f"{error.hint} {_OFF}"
    return replace(failure, error=error)


@contextmanager
def _client(config: SinkConfig) -> Iterator[BlockingClient]:
    """Yield a client. With exactly-once, planning reuses its connection afterwards."""
    if config.exactly_once.is_enabled:
        with borrowed_client(config.producer) as client:
            yield client
    else:
        with BlockingClient(config.producer) as client:
            yield client


def _cache_key(write: PlannedWrite) -> Hashable:
    """Return the parts of a write on which the findings depend."""
    config = write.config
    return (
        config.producer,
        config.preflight,
        config.topic,
        config.topic_creation,
        config.dry_run,
        config.dead_letters,
        config.use_timestamp_column,
        config.exactly_once.transactional_id_prefix,
        write.has_key,
    )


@dataclass(slots=True)
class PreflightCheck:
    """Checks the brokers before a write, once for each configuration.

    A stream is checked once per start. Spark plans each micro-batch separately, but all in one
    process, which also plans the micro-batches of later starts. A batch write is checked again
    after `CHECK_VALID_S`, or `FAILED_CHECK_VALID_S`.
    """

    clock: Clock = field(default_factory=SystemClock)
    examine: Callable[[PlannedWrite], list[Finding]] = examine
    _lock: Lock = field(default_factory=Lock)
    _valid_until: dict[Hashable, float] = field(default_factory=dict)
    """Time until which a check is not repeated, in seconds of the clock. Guarded by the lock."""

    def check_write(
        self,
        write: PlannedWrite,
        *,
        of_stream: bool = False,
        start: Hashable = None,
        only_errors: bool = False,
    ) -> None:
        """Run the checks and log problems. With topic.create, also create missing topics.

        Args:
            write: the planned write.
            of_stream: True if the write is a micro-batch of a stream.
            start: identifies the start of the stream; None if unknown.
            only_errors: True to log only errors, and no warnings.

        Raises:
            KafkaProdError: a finding fails the write (see `first_fatal_error`), or a topic cannot
                be created.
        """
        mode, creates = write.config.preflight, write.config.topic_creation.create
        if mode is PreflightMode.OFF and not creates:
            return
        cache_key = _cache_key(write), start
        if self._is_checked(cache_key, of_stream=of_stream):
            return
        findings = self._examine(write)
        error = first_fatal_error(findings, mode)
        if error is not None:
            raise copy(error)
        for finding in findings:
            if finding.severity is Severity.ERROR:
                _LOG.error("preflight: %s", _describe_finding(finding))
            elif finding.severity is Severity.WARNING and not only_errors:
                _LOG.warning("preflight: %s", _describe_finding(finding))
        failed = any(finding.severity is Severity.ERROR for finding in findings)
        self._remember(cache_key, FAILED_CHECK_VALID_S if failed else CHECK_VALID_S)

    def _examine(self, write: PlannedWrite) -> list[Finding]:
        """Run the checks and return the findings.

        Unless preflight=fail, a check that cannot run is only a warning. For example, the driver
        might not have a truststore that exists on the executors.
        """
        try:
            return self.examine(write)
        except Exception as error:
            mode = write.config.preflight
            if mode is PreflightMode.FAIL or write.config.topic_creation.create:
                raise
            if not isinstance(error, KafkaProdError):  # The text might contain a secret.
                error = KafkaProdError(f"the check failed: {type(error).__name__}")
            return [Finding.warning(CheckStep.OPTIONS, error, is_local=True)]

    def _is_checked(self, cache_key: Hashable, *, of_stream: bool) -> bool:
        with self._lock:
            until = self._valid_until.get(cache_key)
        return until is not None and (of_stream or self.clock.monotonic() < until)

    def _remember(self, cache_key: Hashable, seconds: float) -> None:
        with self._lock:
            self._valid_until.pop(cache_key, None)
            self._valid_until[cache_key] = self.clock.monotonic() + seconds
            while len(self._valid_until) > _MAX_CACHED:
                del self._valid_until[next(iter(self._valid_until))]


preflight_check = PreflightCheck()
"""The preflight check of the process."""
