"""The decision log: a compacted topic with one partition, and the records of each scope.

Every read starts at the cached position and continues to the end of the log. A process caches its
position and the records before it, because only compaction changes that part of the log.
"""

from __future__ import annotations

import logging
import os
from threading import Lock
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError, UnknownTopicError
from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords, Message, scope_of
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.logs.appender import TransactionalAppender
from spark_kafka_sink.kafka.logs.log_reader import LogReader, Position
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.config.exactly_once import ExactlyOnceConfig
    from spark_kafka_sink.exactly_once.transactional_id import Scope
    from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
    from spark_kafka_sink.kafka.records.committed_records import PendingTransaction

DRIVER_TIMEOUT_MS = 15_000
"""The drivers' transaction.timeout.ms; a driver's transaction lasts for one append.

The coordinator checks for expired transactions every 10 s
(transaction.abort.timed.out.transaction.cleanup.interval.ms), so a decision is committed either
within 25 s of its start or never.
"""
_DEFAULT_REPLICATION = 3
_MAX_MESSAGE_BYTES = 1_048_588
"""Kafka's default value. It is set explicitly, in case the cluster's default is lower. Chunks are
half as large.
"""
_SEGMENT_BYTES = 32 * 1024 * 1024
"""Small, because compaction skips the active segment, and every new driver has to read it."""
_LOG = logging.getLogger(__name__)

_cached_records: dict[tuple[int, tuple[str, ...], str], tuple[Position, DecisionRecords]] = {}
"""The records that this process has read, by process id, bootstrap servers and topic. An entry is
removed while a read adds to it; callers have snapshots, because other threads read the same topic.
"""
_compacted: set[tuple[int, tuple[str, ...], str]] = set()
"""The topics whose cleanup.policy has been checked, with the same keys as `_cached_records`."""
_cached_records_lock = Lock()
"""Guards `_cached_records`."""


class DecisionLog:
    """One driver's access to the log; deadlines are in seconds of the client's clock."""

    def __init__(
        self, client: BlockingClient, admin: TransactionAdmin, config: ExactlyOnceConfig
    ) -> None:
        self._client = client
        self._config = config
        self._topics = TopicAdmin(client)
        self._reader = LogReader(client, config.decision_log_topic)
        self._appender = TransactionalAppender(client, admin, DRIVER_TIMEOUT_MS)
        self._pending: tuple[PendingTransaction, ...] = ()
        self._key = (os.getpid(), client.config.bootstrap_servers, config.decision_log_topic)

    def read(self, deadline: float, *, create: bool = False) -> DecisionRecords:
        """Return all committed records up to the current high watermark.

        Args:
            deadline: time limit in seconds of the client's clock.
            create: create a missing topic, and check once whether the topic is compacted.

        Raises:
            ConfigError: the topic is not compacted.
            UnknownTopicError: the topic does not exist, and `create` is False.
            BrokerUnavailableError: the deadline has passed.
        """
        with _cached_records_lock:
            position, records = _cached_records.pop(self._key, (None, None))
        if records is None:
            records = DecisionRecords(self._config.decision_log_topic)
        try:
            read = self._reader.read(position, deadline)
        except UnknownTopicError:
            if not create:
                raise self._missing_error() from None
            records = DecisionRecords(self._config.decision_log_topic)
            self._create_topic(deadline)
            read = self._reader.read(None, deadline)
        if create:
            self._check_compacted(deadline)
        if read.restarted:
            records = DecisionRecords(self._config.decision_log_topic)
        records.add((record.offset, record.key, record.value) for record in read.records)
        self._pending = read.position.pending
        snapshot = records.snapshot()
        with _cached_records_lock:
            _cached_records[self._key] = (read.position, records)
        return snapshot

    def is_pending(self, scope: Scope) -> bool:
        """Return True if the latest read found records of the scope that no marker follows.

        Kafka responds to EndTxn before it writes the markers, so these records may already be
        committed.
        """
        keys = (record.key for pending in self._pending for record in pending.records)
        return any(scope_of(key) == scope for key in keys)

    def has_appended(self, owner: TransactionalProducer) -> bool:
        """Return True if the latest read found records of the owner's open transaction."""
        owner_id = (owner.producer_id, owner.epoch)
        return any(
            (pending.producer_id, pending.epoch) == owner_id and pending.records
            for pending in self._pending
        )

    def append(
        self,
        owner: TransactionalProducer,
        messages: Sequence[Message],
        deadline: float,
        before_commit: Callable[[], None] | None = None,
    ) -> TransactionalProducer:
        """Append all messages in one transaction, or none; see `TransactionalAppender.append`.

        Returns:
            The producer id and epoch for the owner's next transaction.

        Raises:
            FencedError: a newer driver has taken over.
            BrokerUnavailableError: the deadline has passed; it is unknown whether the messages were
                appended.
        """
        topic = self._config.decision_log_topic
        return self._appender.append(owner, topic, messages, deadline, before_commit=before_commit)

    def _missing_error(self) -> UnknownTopicError:
        return UnknownTopicError(
            "the decision log does not exist, so it is unknown which batches are decided",
            topic=self._config.decision_log_topic,
            kafka_error=error_name(ErrorCode.unknown_topic_or_partition),
            hint="Check the option decisionLogTopic, and that the topic was not deleted.",
        )

    def _check_compacted(self, deadline: float) -> None:
        """Raise an error if an existing topic is not compacted.

        Each topic is checked once per process.
        """
        if self._key not in _compacted:
            self._topics.check_compacted(
                self._config.decision_log_topic, self._cleanup_configs(), deadline
            )
            _compacted.add(self._key)

    def _cleanup_configs(self) -> dict[str, str]:
        retention = self._config.decision_log_retention_ms
        if retention < 0:
            return {"cleanup.policy": "compact"}
        return {"cleanup.policy": "compact,delete", "retention.ms": str(retention)}

    def _create_topic(self, deadline: float) -> None:
        """Create the topic; it is not an error if another driver creates it first.

        Some services reject recommended configs: Confluent Cloud requires larger segments, and
        policies may not allow overrides of min.insync.replicas or unclean.leader.election.enable.
        """
        topic, replication = self._config.decision_log_topic, self._replication_factor(deadline)
        required = self._cleanup_configs()
        recommended = {
            "max.message.bytes": str(_MAX_MESSAGE_BYTES),
            "min.insync.replicas": str(max(1, replication - 1)),
            "segment.bytes": str(_SEGMENT_BYTES),
            "unclean.leader.election.enable": "false",
        }
        try:
            self._topics.create_compacted(topic, replication, required | recommended, deadline)
        except ConfigError as error:
            if error.kafka_error is None:  # The topic exists, and is not compacted.
                raise
            _LOG.warning("the decision log is created with the brokers' default configs: %s", error)
            self._topics.create_compacted(topic, replication, required, deadline)

    def _replication_factor(self, deadline: float) -> int:
        """Return the configured replication factor.

        The default is 3, or the number of brokers if there are fewer.
        """
        if self._config.decision_log_replication_factor:
            return self._config.decision_log_replication_factor
        self._client.await_metadata(deadline)
        return min(_DEFAULT_REPLICATION, len(self._client.cluster.nodes))
