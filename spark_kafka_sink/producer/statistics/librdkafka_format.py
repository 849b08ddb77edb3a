"""Values of statistics in librdkafka's format: windows, the counters and the state of a connection.

Source: librdkafka's STATISTICS.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.common.histogram import Histogram
    from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
    from spark_kafka_sink.kafka.client.broker_meters import BrokerMeter
    from spark_kafka_sink.kafka.client.request import InFlightRequest
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch

_PERCENTILES = (50, 75, 90, 95, 99, 99.99)
_STATES = {
    ChannelState.DISCONNECTED: "DOWN",
    ChannelState.LOADING_STORES: "TRY_CONNECT",
    ChannelState.RESOLVING: "TRY_CONNECT",
    ChannelState.CONNECTING: "CONNECT",
    ChannelState.TLS_HANDSHAKE: "SSL_HANDSHAKE",
    ChannelState.NEGOTIATING: "APIVERSION_QUERY",
    ChannelState.SASL_HANDSHAKE: "AUTH_HANDSHAKE",
    ChannelState.AUTHENTICATING: "AUTH_REQ",
    ChannelState.READY: "UP",
    ChannelState.DRAINING: "REAUTH",
}


def window(values: Histogram) -> dict[str, int]:
    """Return a window's statistics in librdkafka's format; times are in microseconds."""
    percentiles = {f"p{q}".replace(".", "_"): values.percentile(q) for q in _PERCENTILES}
    return {
        "min": values.low,
        "max": values.high,
        "avg": int(values.mean),
        "sum": values.total,
        "cnt": values.count,
        "stddev": int(values.deviation),
        **percentiles,
        "outofrange": 0,
    }


def broker_counters(meter: BrokerMeter) -> dict[str, Any]:
    """Return a broker's counters since the session's start."""
    return {
        "tx": meter.tx,
        "txbytes": meter.tx_bytes,
        "txerrs": meter.tx_errors,
        "txretries": meter.retries,
        "req_timeouts": meter.timeouts,
        "rx": meter.rx,
        "rxbytes": meter.rx_bytes,
        "rxerrs": meter.rx_errors,
        "rxcorriderrs": meter.correlation_errors,
        "connects": meter.connects,
        "disconnects": meter.disconnects,
        "req": {_request_name(api): count for api, count in sorted(meter.requests.copy().items())},
    }


def _request_name(api: int) -> str:
    """Return librdkafka's name of the request."""
    if api == ApiKey.API_VERSIONS:
        return "ApiVersion"
    return ApiKey(api).name.title().replace("_", "")


def connection_state(broker: BrokerConnection | None, now: float) -> dict[str, Any]:
    """Return the state and the queues of a broker's connection; None if it was never opened."""
    unwritten = [] if broker is None else list(broker.unwritten)
    in_flight = [] if broker is None else list(broker.in_flight)
    unwritten_ids = {id(request) for request in unwritten}
    written = [request for request in in_flight if id(request) not in unwritten_ids]
    queues = {
        "outbuf_cnt": len(unwritten),
        "outbuf_msg_cnt": _produced_records(unwritten),
        "waitresp_cnt": len(written),
        "waitresp_msg_cnt": _produced_records(written),
    }
    if broker is None:
        unused = {"txidle": -1, "rxidle": -1, "throttled_ms": 0}
        return {"state": "INIT", "stateage": 0, **queues, **unused}
    return {
        "state": _STATES[broker.state],
        "stateage": _microseconds_since(now, broker.state_since),
        **queues,
        "txidle": _microseconds_since(now, broker.wrote_at),
        "rxidle": _microseconds_since(now, broker.read_at),
        "throttled_ms": max(0, int((broker.throttled_until - now) * 1000)),
    }


def _microseconds_since(now: float, since: float | None) -> int:
    return -1 if since is None else max(0, int((now - since) * 1_000_000))


def record_count(batches: Iterable[ProducerBatch]) -> int:
    """Return the number of records in these batches."""
    return sum(batch.records for batch in batches)


def _produced_records(requests: Iterable[InFlightRequest]) -> int:
    """Return the number of records in the Produce requests among `requests`."""
    sent = (in_flight.request for in_flight in requests)
    produce = (request for request in sent if request.api is ApiKey.PRODUCE)
    return sum(batch.records for request in produce for _, batch in request.context)
