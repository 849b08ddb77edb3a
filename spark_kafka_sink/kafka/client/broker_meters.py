"""The counters and times of a client's brokers, from which the report's metrics are built.

Only the sender thread updates them, once per request. Any thread may read them.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from spark_kafka_sink.common.histogram import HistogramBuilder, Meter


class BrokerMeter(Meter):
    """The counters and times of one broker; see `BrokerMetrics` in the report.

    Some counters are included in the statistics but not in the report: `requests` (written, by API
    key), `retries` (requests with a retried batch), `rx_errors` (invalid responses) and
    `correlation_errors` (invalid responses that match no request).
    """

    def __init__(self, node_id: int, name: str) -> None:
        self.node_id = node_id
        self.name = name
        self.tx = self.tx_bytes = self.rx = self.rx_bytes = 0
        self.tx_errors = self.timeouts = self.connects = self.disconnects = 0
        self.retries = self.rx_errors = self.correlation_errors = 0
        self.requests: Counter[int] = Counter()
        self.int_latency = HistogramBuilder()
        self.outbuf_latency = HistogramBuilder()
        self.rtt = HistogramBuilder()
        self.throttle = HistogramBuilder()

    def count_written(self, api: int, waited: float) -> None:
        """Count a request that was completely written after waiting `waited` seconds."""
        self.tx += 1
        self.requests[api] += 1
        self.outbuf_latency.add_duration(waited)


class BrokerMeters(dict[int, BrokerMeter]):
    """The meters by node id, created on first access."""

    def of(self, node: Any) -> BrokerMeter:
        """Return the meter of a node, which has a `node_id` and host:port as its text."""
        meter = self.get(node.node_id)
        if meter is None:
            meter = self[node.node_id] = BrokerMeter(node.node_id, str(node))
        return meter
