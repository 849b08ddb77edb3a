"""kafka.statistics.interval.ms: a line of JSON about a session, in librdkafka's structure.

Counters run from the session's start; the windows (`int_latency`, `rtt`, `batchsize` ...) cover
the time since the line before. `metrics` holds the same under the Java producer's names. The
logger is `spark_kafka_sink.statistics`, the level INFO. Source: librdkafka's STATISTICS.md.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.connection import State
from spark_kafka_sink.client.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.common.debug_log import visible_logger
from spark_kafka_sink.export.java_names import client_values
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_report import TaskInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.client import Client
    from spark_kafka_sink.metrics.histogram import Histogram
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.producer_state import ProducerState
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches
    from spark_kafka_sink.report.builder import ReportBuilder
    from spark_kafka_sink.report.delivery_report import DeliveryReport

LOGGER = "spark_kafka_sink.statistics"
PERCENTILES = (50, 75, 90, 95, 99, 99.99)
_STATES = {
    State.DISCONNECTED: "DOWN",
    State.RESOLVING: "TRY_CONNECT",
    State.CONNECTING: "CONNECT",
    State.NEGOTIATING: "APIVERSION_QUERY",
    State.READY: "UP",
}


@dataclass(slots=True, kw_only=True)
class Statistics:
    """Looks at everything that one session's sender owns; the sender's thread alone calls it."""

    name: str
    client: Client
    accumulator: Accumulator
    identity: ProducerState
    report: ReportBuilder
    lanes: Mapping[TopicPartition, InFlightBatches]
    _started: float = field(init=False)
    _due: float = field(init=False)
    _logger: logging.Logger | None = None

    def __post_init__(self) -> None:
        self._started = self.client.clock.monotonic()
        self._due = self._started + self._interval
        if self._interval:
            self._logger = visible_logger(LOGGER, logging.INFO)

    @property
    def _interval(self) -> float:
        return self.client.config.statistics_interval_ms / 1000

    def pump(self, now: float) -> None:
        """Log a line when one is due."""
        if self._logger is not None and now >= self._due:
            self._due = now + self._interval
            self.emit(now)

    def emit(self, now: float) -> None:
        """Log a line, where statistics are on; the last one when the session ends."""
        if self._logger is not None:
            self._logger.info("%s", json.dumps(self.collect(now)))

    def collect(self, now: float) -> dict[str, Any]:
        """The line as an object; starts new windows."""
        age = now - self._started
        self.accumulator.pool.measure(self.report.meters)
        report = self.report.build(TaskInfo(), int(age * 1000))
        with self.accumulator.lock:
            waiting, unsettled = self._waiting(), self.accumulator.state.incomplete
        return {
            "name": self.name,
            "client_id": self.client.config.client_id,
            "type": "producer",
            "ts": int(now * 1_000_000),
            "time": self.client.clock.wall_ms() // 1000,
            "age": int(age * 1_000_000),
            **self._totals(report, waiting, unsettled),
            "brokers": self._brokers(now),
            "topics": self._topics(report, waiting),
            "eos": self._eos(),
            "metrics": client_values(report, age) | self._gauges(now),
        }

    def _waiting(self) -> dict[TopicPartition, tuple[int, int, int, int]]:
        """Records and bytes in open batches, then in closed ones, by partition."""
        waiting: dict[TopicPartition, tuple[int, int, int, int]] = {}
        for place, batch in self.accumulator.open_batches():
            waiting[place] = (batch.records, batch.raw_size, 0, 0)
        for place, queue in self.accumulator.queues.items():
            records, size, *_ = waiting.get(place, (0, 0, 0, 0))
            closed = [sum(one.records for one in queue), sum(one.raw_size for one in queue)]
            waiting[place] = (records, size, closed[0], closed[1])
        return waiting

    def _totals(
        self,
        report: DeliveryReport,
        waiting: Mapping[TopicPartition, tuple[int, int, int, int]],
        unsettled: int,
    ) -> dict[str, Any]:
        brokers, memory = report.metrics.brokers, self.accumulator.pool
        in_flight = [batch for lane in self.lanes.values() for batch in lane.in_flight + lane.again]
        in_queues = sum(open_ + closed for open_, _, closed, _ in waiting.values())
        return {
            "msg_cnt": in_queues + sum(batch.records for batch in in_flight),
            "msg_size": memory.used,
            "msg_size_max": memory.limit,
            "batch_cnt": unsettled,
            "tx": sum(one.tx for one in brokers),
            "tx_bytes": sum(one.tx_bytes for one in brokers),
            "rx": sum(one.rx for one in brokers),
            "rx_bytes": sum(one.rx_bytes for one in brokers),
            "txmsgs": report.persisted + sum(part.sent for part in report.partitions),
            "txmsg_bytes": report.bytes_uncompressed,
            "metadata_cache_cnt": len(self.client.metadata.cluster.topics),
        }

    def _brokers(self, now: float) -> dict[str, Any]:
        connections = {one.node.node_id: one for one in self.client.network.brokers()}
        return {
            f"{meter.name}/{meter.node_id if meter.node_id >= 0 else 'bootstrap'}": {
                "name": f"{meter.name}/{meter.node_id if meter.node_id >= 0 else 'bootstrap'}",
                "nodeid": meter.node_id,
                "nodename": meter.name,
                "source": "learned" if meter.node_id >= 0 else "configured",
                **_connection(connections.get(meter.node_id), now),
                "tx": meter.tx,
                "txbytes": meter.tx_bytes,
                "txerrs": meter.tx_errors,
                "req_timeouts": meter.timeouts,
                "rx": meter.rx,
                "rxbytes": meter.rx_bytes,
                "connects": meter.connects,
                "disconnects": meter.disconnects,
                **{name: window(times) for name, times in meter.roll().items()},
                "toppars": self._toppars(meter.node_id),
            }
            for meter in self.report.meters.brokers.values()
        }

    def _toppars(self, node_id: int) -> dict[str, Any]:
        led = [place for place, lane in self.lanes.items() if lane.leader == node_id]
        return {
            f"{place.topic}-{place.partition}": {
                "topic": place.topic,
                "partition": place.partition,
            }
            for place in led
        }

    def _topics(
        self,
        report: DeliveryReport,
        waiting: Mapping[TopicPartition, tuple[int, int, int, int]],
    ) -> dict[str, Any]:
        topics: dict[str, Any] = {}
        names = {"batch_size": "batchsize", "batch_records": "batchcnt"}
        for name, meter in self.report.meters.topics.items():
            windows = {names[each]: window(values) for each, values in meter.roll().items()}
            topics[name] = {"topic": name, **windows, "partitions": {}}
        parts = {part.key: part for part in report.partitions}
        for topic, partition in waiting:
            if partition == UNASSIGNED:
                part = PartitionReport(topic=topic, partition=partition)
                parts.setdefault((topic, partition), part)
        for part in parts.values():
            if part.topic in topics:
                described = self._partition(part, waiting)
                topics[part.topic]["partitions"][str(part.partition)] = described
        return topics

    def _partition(
        self,
        part: PartitionReport,
        waiting: Mapping[TopicPartition, tuple[int, int, int, int]],
    ) -> dict[str, Any]:
        place = TopicPartition(part.topic, part.partition)
        open_records, open_bytes, records, size = waiting.get(place, (0, 0, 0, 0))
        lane = self.lanes.get(place)
        in_flight, again = (lane.in_flight, lane.again) if lane else ([], [])
        return {
            "partition": part.partition,
            "broker": -1 if part.leader is None else part.leader,
            "leader": self.client.metadata.cluster.leader(*place),
            "msgq_cnt": open_records,
            "msgq_bytes": open_bytes,
            "xmit_msgq_cnt": records + sum(batch.records for batch in again),
            "xmit_msgq_bytes": size + sum(batch.raw_size for batch in again),
            "txmsgs": part.persisted + part.sent,
            "txbytes": part.bytes_uncompressed,
            "msgs": part.records,
            "msgs_inflight": sum(batch.records for batch in in_flight),
            "next_ack_seq": part.next_ack_seq or 0,
            "next_err_seq": part.next_err_seq or 0,
        }

    def _eos(self) -> dict[str, Any]:
        return {
            "idemp_state": self.identity.state.name,
            "producer_id": self.identity.producer_id,
            "producer_epoch": self.identity.epoch,
        }

    def _gauges(self, now: float) -> dict[str, float]:
        """Java's metrics of the moment."""
        network, memory = self.client.network, self.accumulator.pool
        updated = self.client.metadata.updated_at
        return {
            "requests-in-flight": sum(len(one.connection.in_flight) for one in network.brokers()),
            "buffer-available-bytes": max(0, memory.limit - memory.used),
            "waiting-threads": int(self.accumulator.pool.waiting_since is not None),
            "metadata-age": -1.0 if updated is None else now - updated,
            "connection-count": len(list(network.connected())),
        }


def window(values: Histogram) -> dict[str, int]:
    """A window as librdkafka prints it; times in microseconds."""
    shown = {f"p{q}".replace(".", "_"): values.percentile(q) for q in PERCENTILES}
    return {
        "min": values.low,
        "max": values.high,
        "avg": int(values.mean),
        "sum": values.total,
        "cnt": values.count,
        "stddev": int(values.deviation),
        **shown,
    }


def _connection(link: BrokerConnection | None, now: float) -> dict[str, Any]:
    if link is None:
        return {"state": "INIT", "outbuf_cnt": 0, "waitresp_cnt": 0}
    connection = link.connection
    return {
        "state": _STATES[connection.state],
        "outbuf_cnt": connection.unwritten,
        "waitresp_cnt": len(connection.in_flight),
        "throttled_ms": max(0, int((link.throttled_until - now) * 1000)),
    }
