"""Statistics of a session in librdkafka's structure, as lines of JSON in the log or in files.

Counters run from the session's start; the windows (`int_latency`, `rtt`, `batchsize` ...) cover the
time since the previous line. `metrics` contains the same values under the Java producer's names.
docs/metrics.md lists the librdkafka fields that are not included.

Source: librdkafka's STATISTICS.md.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import error_text
from spark_kafka_sink.common.histogram import Histogram
from spark_kafka_sink.common.logs import visible_logger
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.producer_id import ProducerIdState
from spark_kafka_sink.producer.statistics.librdkafka_format import (
    broker_counters,
    connection_state,
    record_count,
    window,
)
from spark_kafka_sink.producer.statistics.statistics_files import StatisticsFiles
from spark_kafka_sink.producer.transactions.producer_transaction_state import (
    FAILED,
    ProducerTransactionState,
)
from spark_kafka_sink.report.export.java_metrics import client_values
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_attempt import TaskAttempt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.producer.buffer.accumulator import (
        Accumulator,
        BatchTotals,
        BufferContents,
    )
    from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.send.session_partitions import SessionPartitions
    from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.report_builder import ReportBuilder

_LOG = logging.getLogger(__name__)
_LOGGER = "spark_kafka_sink.statistics"
_IDEMPOTENCE_STATES = {
    ProducerIdState.MISSING: "RequestPID",
    ProducerIdState.REQUESTED: "WaitPID",
    ProducerIdState.KNOWN: "Assigned",
}
_TRANSACTION_STATES = {
    ProducerTransactionState.UNINITIALIZED: "Init",
    ProducerTransactionState.INITIALIZING: "WaitPID",
    ProducerTransactionState.CHECKING_FLAG: "WaitPID",
    ProducerTransactionState.READY: "Ready",
    ProducerTransactionState.IN_TRANSACTION: "InTransaction",
    ProducerTransactionState.ABORTABLE_ERROR: "AbortableError",
    ProducerTransactionState.FATAL_ERROR: "FatalError",
    ProducerTransactionState.ABORTING: "AbortingTransaction",
    ProducerTransactionState.ABORTED: "AbortedNotAcked",
}


@dataclass(kw_only=True, eq=False)
class Statistics:
    """Statistics of one session's sender, queues and connections.

    Sender thread only, except that the writer thread writes the last line after the sender's last
    iteration. That line contains the cluster as of that iteration, and the current state of the
    client's connections, which a later session may already use.
    """

    name: str
    """The session's name."""
    path: str | None
    """Path of the files, without suffix; None for the log."""
    client: ProducerClient
    accumulator: Accumulator
    pool: BufferPool
    identity: ProducerIdentity
    report_builder: ReportBuilder
    partitions: SessionPartitions
    transaction_manager: TransactionManager | None

    def __post_init__(self) -> None:
        interval_ms = self.client.config.statistics_interval_ms
        self._started = now = self.client.clock.monotonic()
        self._interval = interval_ms / 1000 or math.inf
        self._due = now + self._interval
        self._files = None if self.path is None else StatisticsFiles(self.path)
        self._is_enabled = self.path is not None or interval_ms > 0
        self._cluster = self.client.metadata.cluster
        self._updated_at = self.client.metadata.updated_at
        self._topics_since: dict[str, float] = {}
        """Time of the first batch to each topic."""
        self._last_epoch = self.identity.producer_id, self.identity.epoch
        self._granted_epochs = 0
        """Number of producer ids and epochs granted since the session started."""
        self._idempotence_state = self._transaction_state = "Init", now
        """The state under librdkafka's name, and its start time."""

    def maybe_emit(self, now: float) -> None:
        """Write a line if statistics are enabled and the interval has passed."""
        if not self._is_enabled:
            return
        self._cluster = self.client.metadata.cluster
        self._updated_at = self.client.metadata.updated_at
        self._observe(now)
        if now >= self._due:
            self._due = now + self._interval
            self._emit(now)

    def finish(self, now: float) -> None:
        """Write the last line if statistics are enabled, and wait until it is stored."""
        if self._is_enabled:
            self._observe(now)
            self._emit(now)
        if self._files is not None:
            self._files.close()

    def collect(self, now: float) -> dict[str, Any]:
        """Return the values of a line, and start new windows."""
        age = now - self._started
        report = self.report_builder.build(TaskAttempt(), int(age * 1000), buffer=self.pool.usage())
        contents = self.accumulator.contents()
        return {
            "name": self.name,
            "client_id": self.client.network.client_id,
            "type": "producer",
            "ts": int(now * 1_000_000),
            "time": self.client.clock.wall_ms() // 1000,
            "age": int(age * 1_000_000),
            **self._totals(report, contents),
            "brokers": self._brokers(now),
            "topics": self._topics(report, contents.totals, now),
            "eos": self._eos(now),
            "metrics": client_values(report, age) | self._gauges(contents, now),
        }

    def _emit(self, now: float) -> None:
        """Write a line; log errors instead of raising them."""
        try:
            line = json.dumps(self.collect(now))
            if self._files is None:
                visible_logger(_LOGGER, logging.INFO).info("%s", line)
            else:
                self._files.write(line)
        except Exception as error:  # noqa: BLE001 - must not cause a retry of the task
            _LOG.warning("cannot write a line of statistics: %s", error_text(error))

    def _observe(self, now: float) -> None:
        """Record changes since the last iteration."""
        identity, transaction_manager = self.identity, self.transaction_manager
        if self.client.config.enable_idempotence:
            state = _IDEMPOTENCE_STATES[identity.state]
            self._idempotence_state = _since(self._idempotence_state, state, now)
        if transaction_manager is not None:
            state = _TRANSACTION_STATES[transaction_manager.state]
            self._transaction_state = _since(self._transaction_state, state, now)
        epoch = identity.producer_id, identity.epoch
        if epoch != self._last_epoch:
            self._last_epoch = epoch
            self._granted_epochs += identity.producer_id >= 0
        if len(self._topics_since) < len(self.report_builder.recorder.topics):
            for topic in self.report_builder.recorder.topics.copy():
                self._topics_since.setdefault(topic, now)

    def _totals(self, report: DeliveryReport, contents: BufferContents) -> dict[str, Any]:
        brokers = report.metrics.brokers
        sent = [batch for state in self.partitions for batch in (*state.in_flight, *state.retries)]
        unsent = sum(held.open_records + held.queued_records for held in contents.totals.values())
        return {
            "msg_cnt": unsent + record_count(sent),
            "msg_size": contents.used,
            "msg_size_max": contents.limit,
            "batch_cnt": contents.incomplete_batches,
            "tx": sum(broker.tx for broker in brokers),
            "tx_bytes": sum(broker.tx_bytes for broker in brokers),
            "rx": sum(broker.rx for broker in brokers),
            "rx_bytes": sum(broker.rx_bytes for broker in brokers),
            "txmsgs": report.persisted + sum(partition.sent for partition in report.partitions),
            "txmsg_bytes": report.bytes_uncompressed,
            "metadata_cache_cnt": len(self._cluster.topics),
        }

    def _brokers(self, now: float) -> dict[str, Any]:
        connections = {broker.node.node_id: broker for broker in self.client.network.brokers()}
        brokers: dict[str, Any] = {}
        for meter in self.report_builder.recorder.brokers.values():
            is_learned = meter.node_id >= 0
            name = f"{meter.name}/{meter.node_id if is_learned else 'bootstrap'}"
            brokers[name] = {
                "name": name,
                "nodeid": meter.node_id,
                "nodename": meter.name,
                "source": "learned" if is_learned else "configured",
                **connection_state(connections.get(meter.node_id), now),
                **broker_counters(meter),
                **{window_name: window(times) for window_name, times in meter.roll().items()},
                "toppars": self._toppars(meter.node_id),
            }
        return brokers

    def _toppars(self, node_id: int) -> dict[str, Any]:
        led = [state.topic_partition for state in self.partitions if state.leader == node_id]
        return {str(partition): partition._asdict() for partition in led}

    def _topics(
        self, report: DeliveryReport, waiting: Mapping[TopicPartition, BatchTotals], now: float
    ) -> dict[str, Any]:
        reports = {partition.key: partition for partition in report.partitions}
        for topic, partition in (*waiting, *(state.topic_partition for state in self.partitions)):
            unused = PartitionReport(topic=topic, partition=partition)
            reports.setdefault((topic, partition), unused)
        names = {topic for topic, _ in reports} | self.report_builder.recorder.topics.keys()
        topics = {name: self._topic(name, now) for name in sorted(names)}
        for (topic, partition), counts in sorted(reports.items()):
            topics[topic]["partitions"][str(partition)] = self._partition(counts, waiting)
        return topics

    def _topic(self, name: str, now: float) -> dict[str, Any]:
        """Return the statistics of a topic, without its partitions."""
        meter = self.report_builder.recorder.topics.get(name)
        windows = {} if meter is None else meter.roll()
        is_known = name in self._cluster.topics and self._updated_at is not None
        return {
            "topic": name,
            "age": int((now - self._topics_since.get(name, now)) * 1000),
            "metadata_age": int((now - (self._updated_at or now)) * 1000) if is_known else 0,
            "batchsize": window(windows.get("batch_size", Histogram())),
            "batchcnt": window(windows.get("batch_records", Histogram())),
            "partitions": {},
        }

    def _partition(
        self, counts: PartitionReport, waiting: Mapping[TopicPartition, BatchTotals]
    ) -> dict[str, Any]:
        topic_partition = TopicPartition(counts.topic, counts.partition)
        open_records, open_bytes, records, size = waiting.get(topic_partition, (0, 0, 0, 0))
        state = self.partitions.get(topic_partition)
        in_flight, retries = (state.in_flight, state.retries) if state else ((), ())
        topic = self._cluster.topics.get(counts.topic)
        is_known = topic is not None and 0 <= counts.partition < topic.partition_count
        return {
            "partition": counts.partition,
            "broker": -1 if counts.leader is None else counts.leader,
            "leader": self._cluster.leader(*topic_partition),
            "leader_epoch": topic.leader_epochs[counts.partition] if topic and is_known else -1,
            "unknown": counts.partition != UNASSIGNED and not is_known,
            "msgq_cnt": open_records,
            "msgq_bytes": open_bytes,
            "xmit_msgq_cnt": records + record_count(retries),
            "xmit_msgq_bytes": size + sum(batch.raw_size for batch in retries),
            "txmsgs": counts.persisted + counts.sent,
            "txbytes": counts.bytes_uncompressed,
            "msgs": counts.records + open_records + records + record_count([*in_flight, *retries]),
            "msgs_inflight": record_count(in_flight),
            "next_ack_seq": counts.next_ack_seq or 0,
            "next_err_seq": counts.next_err_seq or 0,
        }

    def _eos(self, now: float) -> dict[str, Any]:
        transaction_manager = self.transaction_manager
        idempotence_state, idempotence_since = self._idempotence_state
        transaction_state, transaction_since = self._transaction_state
        return {
            "idemp_state": idempotence_state,
            "idemp_stateage": int((now - idempotence_since) * 1000),
            "txn_state": transaction_state,
            "txn_stateage": int((now - transaction_since) * 1000),
            "txn_may_enq": transaction_manager is not None
            and transaction_manager.state not in FAILED,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
            "epoch_cnt": self._granted_epochs,
        }

    def _gauges(self, contents: BufferContents, now: float) -> dict[str, float]:
        """Return the current values of the Java producer's gauges."""
        network = self.client.network
        return {
            "requests-in-flight": sum(len(broker.in_flight) for broker in network.brokers()),
            "buffer-available-bytes": max(0, contents.limit - contents.used),
            "waiting-threads": int(contents.is_full),
            "metadata-age": -1.0 if self._updated_at is None else now - self._updated_at,
            "connection-count": len(list(network.connected())),
        }


def _since(before: tuple[str, float], state: str, now: float) -> tuple[str, float]:
    """Return a state and its start time.

    If the state of `before` is the same, the start time does not change; otherwise, it is `now`.
    """
    return before if before[0] == state else (state, now)
