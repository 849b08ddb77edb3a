"""Counters of a session with a manual clock: statistics lines and the report."""

import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from typing_extensions import Buffer

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.producer.statistics import statistics_files
from spark_kafka_sink.report.export.java_metrics import client_values
from tests.support.harness.fake import FakeCluster, FakeTransport, Fault
from tests.support.harness.world import TICK, World, world

BROKER = "127.0.0.1:40001/1"
LIBRDKAFKAS = Path(__file__).with_name("librdkafka_statistics.txt")
"""The paths of STATISTICS.md; names of brokers, topics and partitions are `*`."""
DOCS = Path(__file__).parents[4] / "docs" / "metrics.md"
NAMED = ("brokers", "topics", "partitions", "toppars")
OWN = {"batch_cnt", "brokers.*.throttled_ms"}


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    records = [r for r in caplog.records if r.name == "spark_kafka_sink.statistics"]
    return [json.loads(record.getMessage()) for record in records]


@pytest.fixture(autouse=True)
def info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "spark_kafka_sink.statistics")


def test_line_per_interval_and_one_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with world(statistics_interval_ms=1_000) as sim:
        started = sim.clock.monotonic()
        while sim.clock.monotonic() < started + 3.5:
            sim.step(0.05)
        assert len(lines(caplog)) == 3
    statistics = lines(caplog)
    assert len(statistics) == 4
    ages = [line["age"] / 1e6 for line in statistics]
    assert ages == sorted(ages)
    assert ages[0] == pytest.approx(1.0, abs=0.2)


def paths(value: Any, path: str = "") -> set[str]:
    """Return the paths of values in a line, without Java's names and the per-request values."""
    if not isinstance(value, dict) or path.endswith(".req"):
        return {path}
    named = path.rpartition(".")[2] in NAMED
    inner = {name: part for name, part in value.items() if name != "metrics"}
    return {
        inner_path
        for name, part in inner.items()
        for inner_path in paths(part, f"{path}.{'*' if named else name}".strip("."))
    }


def test_each_librdkafka_path_is_present_or_documented_as_missing() -> None:
    with world(statistics_interval_ms=1_000) as sim:
        sim.deliver_batches(2)
        ours = paths(sim.statistics.collect(sim.clock.monotonic()))
    text = DOCS.read_text().partition("### Omitted parts of librdkafka's structure")[2]
    table = text.partition("\n#")[0].splitlines()
    rows = [line for line in table if line.startswith("| `")]
    patterns = {name for row in rows for name in row.split("|")[1].split("`")[1::2]}
    known = set(LIBRDKAFKAS.read_text().split())
    left_out = {path for path in known if any(fnmatchcase(path, pattern) for pattern in patterns)}
    assert len(known) == 189
    assert ours - known == OWN
    assert known - ours == left_out
    assert {
        pattern for pattern in patterns if not any(fnmatchcase(path, pattern) for path in known)
    } == set()


def test_request_is_counted_after_it_is_written_completely() -> None:
    with world(statistics_interval_ms=1_000) as sim:
        sim.deliver_batches(1)
        sim.cluster.writable_bytes[1] = 100
        sim.send_batches(1)
        sim.steps(5)
        line = sim.statistics.collect(sim.clock.monotonic())
        broker = line["brokers"][BROKER]
        assert (broker["req"]["Produce"], broker["outbuf_cnt"], broker["outbuf_msg_cnt"]) == (
            1,
            1,
            3,
        )
        assert (broker["tx"], broker["waitresp_cnt"], broker["waitresp_msg_cnt"]) == (2, 0, 0)
        sim.fault(Fault(hold=True))
        del sim.cluster.writable_bytes[1]
        sim.steps(2)
        line = sim.statistics.collect(sim.clock.monotonic())
        broker = line["brokers"][BROKER]
        assert (broker["tx"], broker["outbuf_cnt"], broker["waitresp_msg_cnt"]) == (3, 0, 3)
        assert broker["outbuf_latency"]["max"] >= 5 * TICK * 1e6
        sim.cluster.release()
        sim.finish()


def test_request_on_a_closed_connection_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as sim:
        sim.deliver_batches(1)

        def gone(_self: FakeTransport, _buffers: Sequence[Buffer]) -> int:
            monkeypatch.undo()
            raise BrokenPipeError

        monkeypatch.setattr(FakeTransport, "write", gone)
        sim.send_batches(1)
        sim.finish(0.02)
        metrics = sim.report().metrics
        (broker,) = [b for b in metrics.brokers if b.node_id == 1]
    assert (broker.tx, broker.rx, broker.tx_errors) == (4, 4, 1)  # two of them are ApiVersions
    assert (metrics.request_records.count, metrics.batch_records.count) == (2, 2)


def test_socket_write_time_is_measured(sim: World, monkeypatch: pytest.MonkeyPatch) -> None:

    def slow(self: FakeTransport, buffers: Sequence[Buffer]) -> int:
        sim.clock.advance(0.25)
        return write(self, buffers)

    write = FakeTransport.write
    sim.deliver_batches(1)
    monkeypatch.setattr(FakeTransport, "write", slow)
    sim.deliver_batches(1)
    (broker,) = [b for b in sim.report().metrics.brokers if b.node_id == 1]
    assert broker.outbuf_latency.high == pytest.approx(250_000, rel=0.01)
    assert broker.rtt.high == pytest.approx(TICK * 1e6, rel=0.01)


def test_ages_and_idle_times_are_those_of_the_connection() -> None:
    with world(statistics_interval_ms=60_000) as sim:
        sim.deliver_batches(1)
        started = sim.clock.monotonic()
        sim.steps(10, 0.1)
        line = sim.statistics.collect(sim.clock.monotonic())
        broker, age = line["brokers"][BROKER], (sim.clock.monotonic() - started) * 1e6
        assert broker["state"] == "UP"
        assert age <= broker["rxidle"] <= broker["txidle"] <= broker["stateage"] <= age + 100_000
        eos, topic = line["eos"], line["topics"]["t"]
        assert (eos["idemp_state"], eos["txn_state"], eos["epoch_cnt"]) == ("Assigned", "Init", 1)
        assert age / 1000 <= eos["idemp_stateage"] <= line["age"] / 1000
        assert age / 1000 - 1 <= topic["age"] <= topic["metadata_age"] + 1 <= line["age"] / 1000 + 2
        sim.cluster.stop(1)
        sim.steps(10, 0.05)
        line = sim.statistics.collect(sim.clock.monotonic())
        assert (line["brokers"][BROKER]["txidle"], line["brokers"][BROKER]["rxidle"]) == (-1, -1)


def test_retries_are_counted_and_connections_outlive_sessions() -> None:
    with world(statistics_interval_ms=60_000) as sim:
        sim.fault(Fault(error=ErrorCode.request_timed_out))
        sim.send_batches(1)
        sim.finish(0.02)
        line = sim.statistics.collect(sim.clock.monotonic())
        assert line["brokers"][BROKER]["txretries"] == 1
        sim.next_session()
        sim.deliver_batches(1)
        line = sim.statistics.collect(sim.clock.monotonic())
        assert line["eos"]["idemp_state"] == "Assigned"
        assert line["brokers"][BROKER]["stateage"] > line["age"]


@pytest.mark.parametrize(
    ("frame", "strange"), [(bytes(8), 1), ((1 << 31).to_bytes(4, "big"), 0)], ids=["answer", "size"]
)
def test_invalid_response_counts_as_error_of_its_broker(frame: bytes, strange: int) -> None:
    data = len(frame).to_bytes(4, "big") + frame if strange else frame
    with world(statistics_interval_ms=60_000) as sim:
        sim.deliver_batches(1)
        for peer in sim.cluster.peers:
            peer.send(data, hold=False)
        sim.steps(2)
        line = sim.statistics.collect(sim.clock.monotonic())
        broker = line["brokers"][BROKER]
        assert (broker["rxerrs"], broker["rxcorriderrs"]) == (1, strange)
        assert broker["disconnects"] == 1


def read(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("t-*.jsonl"), key=lambda file: int(file.stem.rpartition("-")[2]))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_lines_in_a_file_describe_the_tasks_cluster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = SessionSettings(statistics_path=str(tmp_path / "new" / "t"))
    with world(settings=settings) as sim:
        sim.deliver_batches(2)
        sim.steps(40, 0.1)  # so that the client drops the topics when the task ends
    (line,) = read(tmp_path / "new")
    assert line["topics"]["t"]["partitions"]["0"]["leader"] == 1
    assert (line["txmsgs"], line["metadata_cache_cnt"]) == (6, 1)
    assert lines(caplog) == []


def test_many_lines_use_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_files, "FILE_BYTES", 1)
    monkeypatch.setattr(statistics_files, "_MAX_PENDING_FILES", 100)
    settings = SessionSettings(statistics_path=str(tmp_path / "t"))
    with world(settings=settings, statistics_interval_ms=1_000) as sim:
        sim.steps(50, 0.1)
    written = read(tmp_path)
    assert len(written) == len(list(tmp_path.iterdir())) > 4
    assert [line["ts"] for line in written] == sorted(line["ts"] for line in written)


def test_partitions_contain_sequences_and_queues(caplog: pytest.LogCaptureFixture) -> None:
    late: dict[str, Any] = {"retry_backoff_ms": 50_000, "retry_backoff_max_ms": 50_000}
    with world(statistics_interval_ms=1_000, **late) as sim:
        sim.send_batches(2)
        sim.steps(20)
        sim.fault(Fault(error=ErrorCode.request_timed_out))
        sim.send_batches(1)
        sim.steps(20, 0.1)
        line = lines(caplog)[-1]
        parts = line["topics"]["t"]["partitions"]
        assert parts["0"]["leader"] == parts["0"]["broker"] == 1
        assert (parts["0"]["next_ack_seq"], parts["0"]["next_err_seq"]) == (6, 9)
        assert (parts["0"]["txmsgs"], parts["0"]["xmit_msgq_cnt"]) == (6, 3)
        assert (parts["0"]["msgs"], parts["0"]["unknown"], parts["0"]["leader_epoch"]) == (
            9,
            False,
            0,
        )
        assert line["msg_cnt"] == 3
        assert line["msg_size"] > 0


def test_windows_are_reset_and_counters_continue(caplog: pytest.LogCaptureFixture) -> None:
    with world(statistics_interval_ms=1_000) as sim:
        sim.send_batches(4)
        sim.steps(24, 0.05)
        sim.steps(24, 0.05)
    first, second = lines(caplog)[:2]
    assert first["topics"]["t"]["batchcnt"]["cnt"] == 4
    assert first["topics"]["t"]["batchcnt"]["p99_99"] == 3
    assert first["brokers"][BROKER]["rtt"]["cnt"] == 4
    assert second["topics"]["t"]["batchcnt"]["cnt"] == 0
    assert second["brokers"][BROKER]["rtt"]["cnt"] == 0
    assert first["txmsgs"] == second["txmsgs"] == 12
    assert second["brokers"][BROKER]["tx"] >= first["brokers"][BROKER]["tx"] == 5
    assert first["brokers"][BROKER]["req"] == {"ApiVersion": 1, "Produce": 4}


def test_latencies_are_measured() -> None:
    """The clock advances by one tick per step: a response arrives one step after its request."""
    with world(linger_ms=30) as sim:
        sim.deliver([b"x"], 0)
        (broker,) = [b for b in sim.report().metrics.brokers if b.node_id == 1]
        assert broker.rtt.count == 1
        assert broker.rtt.high == pytest.approx(TICK * 1e6, rel=0.01)
        assert broker.int_latency.low >= 30_000
        metrics = sim.report().metrics
        assert (metrics.closed_linger, metrics.closed) == (1, 1)
        assert metrics.fill_time.low >= 30_000


def test_internal_latency_is_measured_per_record() -> None:
    """As in librdkafka: from the append of a record until its request is built."""
    with world(linger_ms=1_000) as sim:
        sim.send([b"a"] * 3, 0)
        sim.clock.advance(0.4)
        sim.send([b"b"] * 2, 0)
        sim.clock.advance(0.4)
        sim.send([b"c"], 0)
        sim.clock.advance(0.4)
        sim.finish()
        (broker,) = [b for b in sim.report().metrics.brokers if b.node_id == 1]
        latency = broker.int_latency
        assert latency.count == 6
        assert 400_000 <= latency.low < 450_000
        assert latency.high - latency.low == pytest.approx(800_000, abs=2)
        assert latency.mean - latency.low == pytest.approx((3 * 800_000 + 2 * 400_000) / 6, abs=2)


def test_every_close_reason_is_counted() -> None:
    with world(linger_ms=50) as sim:
        sim.send([b"." * 900, b"." * 900])  # the second one does not fit
        sim.steps(30)
        sim.send([b"no room"], 1)
        with sim.blocked_writer():
            sim.step()
        sim.send([b"flushed"], 2)
        flushing = Thread(target=sim.session.flush, daemon=True)
        flushing.start()
        sim.run(lambda: not flushing.is_alive(), 0.0)
        metrics = sim.report().metrics
    assert (metrics.closed_full, metrics.closed_linger) == (1, 1)
    assert (metrics.closed_memory, metrics.closed_flush) == (1, 1)


def test_retries_throttling_and_lost_requests_are_counted() -> None:
    with world() as sim:
        sim.fault(Fault(error=ErrorCode.request_timed_out), Fault(lose=True), Fault(throttle_ms=40))
        sim.send_batches(1)
        sim.finish(0.02)
        report = sim.report()
        metrics = report.metrics
    (broker,) = [b for b in metrics.brokers if b.node_id == 1]
    assert (report.retries, metrics.retried_records) == (2, 6)
    assert metrics.topic_partitions == {"t": 4}
    assert (broker.tx, broker.rx, broker.tx_errors) == (5, 4, 1)  # ApiVersions on two connections
    assert (broker.connects, broker.disconnects) == (2, 1)
    assert (broker.throttle.count, broker.throttle.high, report.throttle_ms) == (2, 40, 40)
    values = client_values(report, 1.0)
    assert (values["record-retry-total"], values["record-send-total"]) == (6, 3)
    assert values["produce-throttle-time-max"] == 40


def test_compression_is_measured(caplog: pytest.LogCaptureFixture) -> None:
    with world(compression_type="lz4") as sim:
        sim.deliver_batches(3)
        metrics = sim.report().metrics
    assert metrics.compression_time.count == metrics.compression_rate.count == 3
    assert 0 < metrics.compression_rate.high < 1_000_000
    with world() as sim:
        sim.deliver_batches(3)
        assert sim.report().metrics.compression_rate.count == 0


def test_wire_bytes_match_what_brokers_received() -> None:
    with world() as sim:
        sim.deliver_batches(3)
        (broker,) = [b for b in sim.report().metrics.brokers if b.node_id == 1]
        produced = sum(seen.size + 4 for seen in sim.cluster.seen)
        negotiation = broker.tx_bytes - produced
    assert 0 < negotiation < 100  # the connection's ApiVersions request
    assert broker.rx_bytes > 0


def test_session_counts_only_its_own_requests() -> None:
    with world() as sim:
        sim.deliver_batches(3)
        sim.next_session()
        sim.deliver_batches(1)
        metrics = sim.report().metrics
    assert metrics.batch_records.count == 1
    assert sum(broker.tx for broker in metrics.brokers if broker.node_id == 1) == 1
    assert dict(metrics.settings)["linger.ms"] == "0"


def test_current_gauges(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 2})
    with world(cluster, statistics_interval_ms=100) as sim:
        sim.fault(Fault(hold=True))
        sim.send_batches(1)
        sim.steps(40, 0.05)
        gauges = lines(caplog)[-1]["metrics"]
        assert gauges["requests-in-flight"] == 1
        assert gauges["connection-count"] == 2
        assert gauges["buffer-available-bytes"] < sim.config.buffer_memory
        assert 0 < gauges["metadata-age"] < 3
        sim.cluster.release()
        sim.finish()
