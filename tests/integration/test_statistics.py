"""Compare statistics with those of librdkafka, and timestamps of brokers."""

import json
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import numbered, produce, session
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka

ADDED_FIELDS = {".metrics", ".batch_cnt", ".brokers.*.throttled_ms"}
"""Fields in addition to those of librdkafka; `metrics` has the names of the Java client."""
COMPARED_FIELDS = (
    "leader",
    "leader_epoch",
    "broker",
    "unknown",
    "txmsgs",
    "msgs",
    "msgs_inflight",
    "msgq_cnt",
    "msgq_bytes",
    "xmit_msgq_cnt",
    "xmit_msgq_bytes",
    "next_ack_seq",
    "next_err_seq",
)
"""Fields of a partition that must be equal."""


def librdkafka_lines(bootstrap_servers: str, topic: str, records: int = 1) -> list[dict[str, Any]]:
    """Return the lines of librdkafka; the last one follows all acknowledgements."""
    seen: list[str] = []
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "enable.idempotence": True,
        "linger.ms": 20,
        "statistics.interval.ms": 100,
        "stats_cb": seen.append,
    }
    producer = Producer(settings)
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=number % 2)
    producer.flush(10)
    flushed = len(seen)
    while len(seen) <= flushed + 1:
        producer.poll(0.1)
    return [json.loads(line) for line in seen]


def producer_line(
    bootstrap_servers: str, topic: str, caplog: pytest.LogCaptureFixture
) -> dict[str, Any]:
    """Return the last statistics line of a producer session."""
    with session(bootstrap_servers, statistics_interval_ms=60_000) as producer:
        producer.append(numbered(topic, 0, 1_000, 2))
        producer.flush()
    (record,) = [r for r in caplog.records if r.name == "spark_kafka_sink.statistics"]
    line: dict[str, Any] = json.loads(record.getMessage())
    return line


def shape(value: Any, path: str = "") -> dict[str, str]:
    """Return value types by path; names of brokers, topics and partitions become `*`."""
    if not isinstance(value, dict):
        return {path: "number" if isinstance(value, int | float) else type(value).__name__}
    if path == ".metrics":
        return {path: "object"}
    types: dict[str, str] = {}
    for name, inner in value.items():
        named = path.endswith((".brokers", ".topics", ".partitions", ".toppars", ".req"))
        types |= shape(inner, f"{path}.{'*' if named else name}")
    return types


def test_same_structure_as_librdkafka(
    embedded_broker: EmbeddedBroker, unique_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "spark_kafka_sink.statistics")
    embedded_broker.create_topic(unique_topic, 2)
    servers = embedded_broker.bootstrap_servers
    mine, theirs = (
        producer_line(servers, unique_topic, caplog),
        librdkafka_lines(servers, unique_topic)[-1],
    )
    known = shape(theirs)
    added = {path: kind for path, kind in shape(mine).items() if known.get(path) != kind}
    assert set(added) == ADDED_FIELDS
    requested = "int_latency", "outbuf_latency", "rtt", "throttle"
    figures = "min", "max", "avg", "sum", "cnt", "p50", "p75", "p90", "p95", "p99", "p99_99"
    for window in requested:
        assert {f".brokers.*.{window}.{figure}" for figure in figures} <= shape(mine).keys()


def total(lines: list[dict[str, Any]], path: str) -> int:
    """Return the sum of a window's field over all lines, brokers or topics."""
    group, window, figure = path.split(".")
    return sum(broker[window][figure] for line in lines for broker in line[group].values())


def test_same_values_as_librdkafka(
    any_kafka: AnyKafka, caplog: pytest.LogCaptureFixture, unique_topic: str
) -> None:
    caplog.set_level("INFO", "spark_kafka_sink.statistics")
    names = f"{unique_topic}-mine", f"{unique_topic}-theirs"
    servers = any_kafka.bootstrap_servers
    for name in names:
        Admin(servers).create_topic(name, 2)
    mine, theirs = (
        producer_line(servers, names[0], caplog),
        librdkafka_lines(servers, names[1], 1_000),
    )
    last = theirs[-1]
    for path in ("txmsgs", "msg_cnt", "msg_size", "metadata_cache_cnt", "type"):
        assert mine[path] == last[path], path
    for number in ("0", "1"):
        part, other = (
            line["topics"][name]["partitions"][number]
            for line, name in zip((mine, last), names, strict=True)
        )
        assert {path: part[path] for path in COMPARED_FIELDS} == {
            path: other[path] for path in COMPARED_FIELDS
        }
    for path in ("idemp_state", "txn_state", "txn_may_enq", "producer_epoch", "epoch_cnt"):
        assert mine["eos"][path] == last["eos"][path], path
    for path in ("topics.batchcnt.sum", "brokers.int_latency.cnt"):
        assert total([mine], path) == total(theirs, path) == 1_000, path
    for line in (mine, last):
        (leader,) = [broker for broker in line["brokers"].values() if broker["nodeid"] == 1]
        assert leader["tx"] == leader["rx"] == sum(leader["req"].values()), leader
        assert leader["req"]["ApiVersion"] == leader["connects"] == 1
        assert leader["txerrs"] == leader["rxerrs"] == leader["outbuf_cnt"] == 0
        assert leader["stateage"] >= leader["txidle"] >= leader["rxidle"] > 0
    for lines in ([mine], theirs):
        assert 0 < total(lines, "brokers.outbuf_latency.sum") < 10_000_000
        produced = sum(broker["req"].get("Produce", 0) for broker in lines[-1]["brokers"].values())
        assert total(lines, "brokers.rtt.cnt") >= produced >= 1


def test_timestamps_of_a_log_append_time_topic(any_kafka: AnyKafka, unique_topic: str) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 1, configs=configs)
    before = int(time.time() * 1000)
    with session(any_kafka.bootstrap_servers, linger_ms=0) as producer:
        for number in range(3):
            producer.append(numbered(unique_topic, number, 1, 1))
            producer.flush()
        (part,) = producer.report(TaskAttempt()).partitions
    after = int(time.time() * 1000)
    assert part.first_append_time is not None
    assert part.last_append_time is not None
    assert before <= part.first_append_time <= part.last_append_time <= after


def test_no_timestamps_of_a_create_time_topic(any_kafka: AnyKafka, unique_topic: str) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 1)
    (part,) = produce(any_kafka.bootstrap_servers, numbered(unique_topic, 0, 5, 1)).partitions
    assert (part.first_append_time, part.leader, part.next_ack_seq) == (None, 1, 5)
