"""A dry run executes every step except sending the requests."""

from dataclasses import replace
from itertools import count

import pytest

from spark_kafka_sink.common.errors import RecordTooLargeError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.producer_id import ProducerIdState
from spark_kafka_sink.producer.send.dry_run import SAMPLED_BYTES, CodecSampler, is_sampled
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.report.report_builder import ReportBuilder
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.harness.fake import FakeCluster
from tests.support.harness.offline import config
from tests.support.harness.world import world

DRY = SessionSettings(dry_run=True)
DEAD = "dead"


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("partition", [1, None])
def test_report_equals_that_of_a_write_without_sending(codec: str, partition: int | None) -> None:
    reports = []
    for settings in (None, DRY):
        cluster = FakeCluster(nodes=2, topics={"t": 4})
        with world(cluster, settings, enable_idempotence="false", compression_type=codec) as sim:
            sim.deliver_batches(9, partition)
            sim.check_accounting()
            reports.append(sim.report())
            assert bool(cluster.seen) == (settings is None)
            assert sim.session.identity.state is ProducerIdState.MISSING
            assert sim.session.progress().counts.would_be_written == reports[-1].would_be_written
    wet, dry = reports
    assert (dry.dry_run, dry.persisted, dry.would_be_written) == (True, 0, 27)
    assert (wet.dry_run, wet.persisted, wet.would_be_written) == (False, 27, 0)
    assert wet.codecs == ()
    assert len(dry.partitions) == 4  # including partitions without rows
    assert (dry.batches, dry.bytes_uncompressed) == (wet.batches, wet.bytes_uncompressed)
    assert (dry.bytes_sent, dry.request_latency.count) == (wet.bytes_sent, 0)
    assert dry.metrics.batch_size == wet.metrics.batch_size


def test_rows_for_the_dead_letter_topic_are_counted_but_not_sent() -> None:
    policy = DeadLetterPolicy(tolerance=Tolerance.ALL, dead_letter_topic=DEAD)
    cluster = FakeCluster(topics={"t": 1, DEAD: 1})
    settings = replace(DRY, dead_letters=policy)
    with world(cluster, settings, enable_idempotence="false", max_request_size=3_000) as sim:
        sim.deliver([b"a", b"." * 5_000, b"b"])
        report = sim.report()
        assert {part.topic: part.would_be_written for part in report.partitions} == {
            "t": 2,
            DEAD: 1,
        }
        assert (report.rows, report.dead_lettered) == (3, 1)
        assert not cluster.seen


def test_topic_to_be_created_exists_only_in_this_session() -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 1})
    settings = replace(DRY, assumed_topics=(("new", 3), ("t", 9)))
    with world(cluster, settings, enable_idempotence="false") as sim:
        sim.load_metadata(("new", "t"))
        sim.send_batches(6, None, "new")
        sim.send_batches(2, 2, "new")
        sim.deliver_batches(1, 0)
        parts = sim.report().partitions
        assert [(part.key, part.leader) for part in parts] == [
            (("new", 0), 1),
            (("new", 1), 2),
            (("new", 2), 1),
            (("t", 0), 1),  # as it is
        ]
        assert sum(part.would_be_written for part in parts) == 27
        assert "new" not in cluster.ids
        metadata = sim.client.metadata
        before = metadata.updates
        metadata.request_refresh()
        sim.run(lambda: metadata.updates > before)
        assert set(metadata.cluster.topics) == {"new", "t"}
        sim.session.close()
        assert "new" not in metadata.cluster.topics


def test_record_too_large_fails_the_dry_run() -> None:
    with (
        world(settings=DRY, enable_idempotence="false", max_request_size=3_000) as sim,
        pytest.raises(RecordTooLargeError),
    ):
        sim.send([b"." * 5_000])


def test_dry_run_session_must_not_have_a_producer_id() -> None:
    with pytest.raises(AssertionError), world(settings=DRY):
        pass


def test_sampling_interval_grows_and_samples_are_limited() -> None:
    assert [n for n in range(1, 20) if is_sampled(n, 0)] == [1, 2, 4, 8, 16]
    assert is_sampled(32, SAMPLED_BYTES - 1)
    assert not is_sampled(32, SAMPLED_BYTES)


@pytest.mark.parametrize("configured", ["none", "zstd"])
def test_each_codec_is_measured_on_the_same_batches(configured: str) -> None:
    settings = config(compression_type=configured)
    report, ticks = ReportBuilder(dry_run=True), count(step=1_000)
    sampler = CodecSampler(settings, report, lambda: next(ticks))
    data = b"a row and another " * 500
    codec = settings.compression_type
    for _ in range(3):
        batch = ProducerBatch(TopicPartition("t", 0), 0.0, 0, 0)
        batch.add(data, 100, 0)
        if codec is not Codec.NONE:
            batch.set_payload(compress(codec, data, settings.compression_level), codec)
        sampler.offer(batch)
    codecs = report.build(TaskAttempt(), 0).codecs
    assert [codec_cost.codec for codec_cost in codecs] == ["none", "gzip", "snappy", "lz4", "zstd"]
    for measured in codecs:
        size = (
            len(compress(Codec.named(measured.codec), data))
            if measured.codec != "none"
            else len(data)
        )
        assert (measured.batches, measured.records) == (2, 200)
        assert measured.bytes_uncompressed == 2 * (HEADER_SIZE + len(data))
        assert measured.bytes_compressed == 2 * (HEADER_SIZE + size)
        assert measured.cpu_ns == (0 if measured.codec == "none" else 2_000)
