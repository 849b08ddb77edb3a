"""kafka.statistics.interval.ms: a line of JSON about a session, in librdkafka's structure.

Counters run from the session's start; the windows (`int_latency`, `rtt`, `batchsize` ...) cover
the time since the line before. `metrics` holds the same under the Java producer's names. The
logger is `spark_kafka_sink.statistics`, the level INFO. Source: librdkafka's STATISTICS.md.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.channel.state import State
from spark_kafka_sink.client.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.common.debug_log import visible_logger
from spark_kafka_sink.common.errors import text_of
from spark_kafka_sink.export.java_names import client_values
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_report import TaskInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.metrics.histogram import Histogram
    from spark_kafka_sink.producer.send.send_context import SendContext
    from spark_kafka_sink.report.delivery_report import DeliveryReport

_LOG = logging.getLogger(__name__)
LOGGER = "spark_kafka_sink.statistics"
PERCENTILES = (50, 75, 90, 95, 99, 99.99)
_STATES = {
    State.DISCONNECTED: "DOWN",
    State.LOADING_STORES: "TRY_CONNECT",
    State.RESOLVING: "TRY_CONNECT",
    State.CONNECTING: "CONNECT",
    State.TLS_HANDSHAKE: "SSL_HANDSHAKE",
    State.NEGOTIATING: "APIVERSION_QUERY",
    State.SASL_HANDSHAKE: "AUTH_HANDSHAKE",
    State.AUTHENTICATING: "AUTH_REQ",
    State.READY: "UP",
    State.DRAINING: "REAUTH",
}


class Statistics:
    """Looks at everything that one session's sender owns.

    Sender thread only, and for the last line the writer's, when no turn of the sender runs any
    more and the connections count for others. Of the client's connections, which live on, that
    line shows what they are at that moment.
    """

    def __init__(self, context: SendContext) -> None:
        session = context.session
        self._name = session.events.session
        self._client = session.client
        self._accumulator = context.accumulator
        self._producer_state = session.producer_state
        self._report = session.report
        self._in_flight = context.in_flight
        self._started = session.clock.monotonic()
        self._due = self._started + self._interval
        self._logger = visible_logger(LOGGER, logging.INFO) if self._interval else None

    @property
    def _interval(self) -> float:
        return self._client.config.statistics_interval_ms / 1000

    def maybe_emit(self, now: float) -> None:
        """Log a line when one is due."""
        if self._logger is not None and now >= self._due:
            self._due = now + self._interval
            self.emit(now)

    def emit(self, now: float) -> None:
        """Log a line, where statistics are on; the last one when the session ends.

        It only reports, so what goes wrong with it is logged and ends neither session nor close.
        """
        if self._logger is None:
            return
        try:
            self._logger.info("%s", json.dumps(self.collect(now)))
        except Exception as error:  # noqa: BLE001 - records must not be sent again for it
            _LOG.warning("no line of statistics: %s", text_of(error))

    def collect(self, now: float) -> dict[str, Any]:
        """The line as an object; starts new windows."""
        age = now - self._started
        self._accumulator.pool.measure(self._report.meters)
        report = self._report.build(TaskInfo(), int(age * 1000))
        with self._accumulator.lock:
            waiting, incomplete = self._waiting(), self._accumulator.state.incomplete
        return {
            "name": self._name,
            "client_id": self._client.config.client_id,
            "type": "producer",
            "ts": int(now * 1_000_000),
            "time": self._client.clock.wall_ms() // 1000,
            "age": int(age * 1_000_000),
            **self._totals(report, waiting, incomplete),
            "brokers": self._brokers(now),
            "topics": self._topics(report, waiting),
            "eos": self._eos(),
            "metrics": client_values(report, age) | self._gauges(now),
        }

    def _waiting(self) -> dict[TopicPartition, tuple[int, int, int, int]]:
        """Records and bytes in open batches, then in closed ones, by partition."""
        waiting: dict[TopicPartition, tuple[int, int, int, int]] = {}
        for place, batch in self._accumulator.open_batches():
            waiting[place] = (batch.records, batch.raw_size, 0, 0)
        for place, queue in self._accumulator.queues.items():
            records, size, *_ = waiting.get(place, (0, 0, 0, 0))
            closed = [sum(one.records for one in queue), sum(one.raw_size for one in queue)]
            waiting[place] = (records, size, closed[0], closed[1])
        return waiting

    def _totals(
        self,
        report: DeliveryReport,
        waiting: Mapping[TopicPartition, tuple[int, int, int, int]],
        incomplete: int,
    ) -> dict[str, Any]:
        brokers, memory = report.metrics.brokers, self._accumulator.pool
        in_flight = [
            batch
            for each in self._in_flight.values()
            for batch in each.in_flight + each.retry_queue
        ]
        in_queues = sum(open_ + closed for open_, _, closed, _ in waiting.values())
        return {
            "msg_cnt": in_queues + sum(batch.records for batch in in_flight),
            "msg_size": memory.used,
            "msg_size_max": memory.limit,
            "batch_cnt": incomplete,
            "tx": sum(one.tx for one in brokers),
            "tx_bytes": sum(one.tx_bytes for one in brokers),
            "rx": sum(one.rx for one in brokers),
            "rx_bytes": sum(one.rx_bytes for one in brokers),
            "txmsgs": report.persisted + sum(part.sent for part in report.partitions),
            "txmsg_bytes": report.bytes_uncompressed,
            "metadata_cache_cnt": len(self._client.metadata.cluster.topics),
        }

    def _brokers(self, now: float) -> dict[str, Any]:
        connections = {one.node.node_id: one for one in self._client.network.brokers()}
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
            for meter in self._report.meters.brokers.values()
        }

    def _toppars(self, node_id: int) -> dict[str, Any]:
        led = [place for place, batches in self._in_flight.items() if batches.leader == node_id]
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
        for name, meter in self._report.meters.topics.items():
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
        batches = self._in_flight.get(place)
        in_flight, retries = (batches.in_flight, batches.retry_queue) if batches else ([], [])
        return {
            "partition": part.partition,
            "broker": -1 if part.leader is None else part.leader,
            "leader": self._client.metadata.cluster.leader(*place),
            "msgq_cnt": open_records,
            "msgq_bytes": open_bytes,
            "xmit_msgq_cnt": records + sum(batch.records for batch in retries),
            "xmit_msgq_bytes": size + sum(batch.raw_size for batch in retries),
            "txmsgs": part.persisted + part.sent,
            "txbytes": part.bytes_uncompressed,
            "msgs": part.records,
            "msgs_inflight": sum(batch.records for batch in in_flight),
            "next_ack_seq": part.next_ack_seq or 0,
            "next_err_seq": part.next_err_seq or 0,
        }

    def _eos(self) -> dict[str, Any]:
        return {
            "idemp_state": self._producer_state.state.name,
            "producer_id": self._producer_state.producer_id,
            "producer_epoch": self._producer_state.epoch,
        }

    def _gauges(self, now: float) -> dict[str, float]:
        """Java's metrics of the moment."""
        network, memory = self._client.network, self._accumulator.pool
        updated = self._client.metadata.updated_at
        return {
            "requests-in-flight": sum(len(one.connection.in_flight) for one in network.brokers()),
            "buffer-available-bytes": max(0, memory.limit - memory.used),
            "waiting-threads": int(self._accumulator.pool.waiting_since is not None),
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


def _connection(broker: BrokerConnection | None, now: float) -> dict[str, Any]:
    if broker is None:
        return {"state": "INIT", "outbuf_cnt": 0, "waitresp_cnt": 0}
    connection = broker.connection
    return {
        "state": _STATES[connection.state],
        "outbuf_cnt": connection.unwritten,
        "waitresp_cnt": len(connection.in_flight),
        "throttled_ms": max(0, int((broker.throttled_until - now) * 1000)),
    }
