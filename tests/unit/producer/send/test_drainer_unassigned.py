"""Keyless rows wait in one queue per topic until a partition can accept a batch."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.throttling import BreakerConfig, Thresholds, ThrottlingConfig
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.limits.breaker import BatchOutcome
from spark_kafka_sink.producer.send.drainer import DrainResult
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import record_errors, tolerant

UNASSIGNED_QUEUE = TopicPartition("t", UNASSIGNED)
PARTITIONS = [TopicPartition("t", number) for number in range(4)]


def waiting_batches(sim: World) -> list[ProducerBatch]:
    """Return the closed batches without a partition."""
    return sim.buffer.queues.batches_of(lambda queue: queue == UNASSIGNED_QUEUE)


def send_first_batches(sim: World) -> None:
    """Send a batch to each partition, so that later batches may be pipelined."""
    for partition in range(sum(name == "t" for name, _ in sim.cluster.logs)):
        sim.send_batches(1, partition)
    sim.close_batches()
    sim.finish()
    sim.cluster.seen.clear()


def sent_batches(sim: World) -> list[tuple[int, BatchHeader]]:
    """Return partition and header of each batch that the brokers have received."""
    batches = [
        (topic_partition, data)
        for seen in sim.cluster.seen
        for topic_partition, data in seen.batches.items()
    ]
    return [(partition, BatchHeader.parse(data)) for (_, partition), data in batches]


def leaderless_cluster() -> FakeCluster:
    """Create a cluster whose topic has no leader; another broker returns the metadata."""
    cluster = FakeCluster(nodes=2, topics={"t": 3})
    for partition in range(3):
        cluster.move("t", partition, 2)
    cluster.stop(2)
    return cluster


def test_each_batch_of_a_chunk_has_its_own_partition() -> None:
    with world(linger_ms=10**6) as sim:
        send_first_batches(sim)
        values = sim.send_batches(4, None)
        sim.close_batches()
        assert [batch.records for batch in waiting_batches(sim)] == [3] * 4
        sim.finish()
        assert sorted(partition for partition, _ in sent_batches(sim)) == [0, 1, 2, 3]
        written = [value for log in sim.cluster.logs.values() for value in log.values()[3:]]
        assert sorted(value or b"" for value in written) == values
        sim.check_accounting()


def test_rows_stay_in_one_batch_until_it_is_full() -> None:
    with world(linger_ms=10**6) as sim:
        for number in range(7):
            sim.send([b"%03d" % number + b"." * 270], None)
            sim.steps(3)
        sim.close_batches()
        sim.finish()
        batches = [data for log in sim.cluster.logs.values() for data in log.batches]
        assert sorted(BatchHeader.parse(data).record_count for data in batches) == [1, 3, 3]


def test_batches_that_cannot_be_sent_are_not_assigned(sim: World) -> None:
    send_first_batches(sim)
    sim.fault(*[Fault(hold=True)] * 5)
    sim.send_batches(100, None)
    sim.steps(20)
    in_flight = sum(len(partition.in_flight) for partition in sim.sender.partitions)
    assert in_flight == 20
    assert len(waiting_batches(sim)) == 80
    quotas = sim.buffer.quotas
    assert (
        sum(quotas.charged_bytes(partition) for partition in PARTITIONS)
        < 20 * sim.config.batch_size
    )
    assert not sim.buffer.queues.batches_of(lambda queue: queue != UNASSIGNED_QUEUE)
    sim.cluster.release()
    sim.finish()
    sim.check_accounting()
    assert not any(quotas.charged_bytes(partition) for partition in PARTITIONS)


def first_choices(sim: World) -> Counter[int]:
    drainer, now = sim.sender.drainer, sim.clock.monotonic()
    leaders = {0: 1, 1: 2}
    draws = [
        drainer._partitions_in_draw_order("t", leaders, DrainResult({1: 99, 2: 99}, now))
        for _ in range(4_000)
    ]
    return Counter(next(draw) for draw in draws)


@pytest.mark.parametrize(("adaptive", "share"), [("true", 1 / 5), ("false", 1 / 2)])
def test_partition_with_more_in_flight_is_drawn_less_often(adaptive: str, share: float) -> None:
    options: dict[str, Any] = {"partitioner_adaptive_partitioning_enable": adaptive}
    with world(FakeCluster(nodes=2, topics={"t": 2}), **options) as sim:
        send_first_batches(sim)
        sim.fault(*[Fault(hold=True)] * 3)
        sim.send_batches(3, 1)
        sim.steps(5)
        assert first_choices(sim)[1] / 4_000 == pytest.approx(share, abs=0.03)
        sim.cluster.release()
        sim.finish()


@pytest.mark.deep
@pytest.mark.parametrize("keyed", [0, 1])
def test_load_is_ignored_without_adaptive_partitioning(keyed: int) -> None:
    """All partitions have the same probability, as in Java (KIP-794), even if one is slow."""
    cluster = FakeCluster(nodes=4, topics={"t": 8})
    options: dict[str, Any] = {
        "partitioner_adaptive_partitioning_enable": "false",
        "linger_ms": 10**6,
    }
    with world(cluster, **options) as sim:
        counts: Counter[int] = Counter()
        for turn in range(400):
            if turn % 40 == 20:
                cluster.release()
            sim.fault(Fault(hold=True) if turn % 3 == 0 else None)
            sim.send_batches(4, None)
            for partition in range(8 * keyed):
                sim.send([b"keyed"], partition)
            sim.step()
        sim.close_batches()
        cluster.faults.clear()
        for _ in range(100):
            cluster.release()
            sim.steps(5)
        sim.finish()
        for (_, partition), log in cluster.logs.items():
            counts[partition] = sum(value != b"keyed" for value in log.values())
        draws = sum(counts.values()) / 3
        assert draws == pytest.approx(1_600, rel=0.01)
        # Three standard deviations of the sum of squares for eight equal partitions.
        mean = draws / 8
        assert sum((count / 3 - mean) ** 2 / mean for count in counts.values()) < 7 + 3 * 14**0.5


def test_retried_batch_keeps_its_partition(sim: World) -> None:
    sim.fault(
        Fault(error=ErrorCode.not_enough_replicas),
        Fault(lose=True),
        Fault(error=ErrorCode.request_timed_out),
    )
    sim.deliver_batches(1, None)
    assert len(sent_batches(sim)) == 4
    assert len({partition for partition, _ in sent_batches(sim)}) == 1
    assert {header.base_sequence for _, header in sent_batches(sim)} == {0}
    sim.check_accounting()


def test_later_rows_with_partition_are_sent_and_retried_after_keyless_batch() -> None:
    with world(FakeCluster(topics={"t": 1}), linger_ms=10**6) as sim:
        send_first_batches(sim)
        sim.fault(
            Fault(error=ErrorCode.not_enough_replicas, hold=True),
            Fault(error=ErrorCode.not_enough_replicas),
        )
        values = sim.send_batches(2, None)
        sim.send([b"newer"])
        sim.close_batches()
        sim.run(lambda: len(sim.cluster.seen) == 3)
        sim.cluster.release()
        sim.finish()
        assert [header.base_sequence for _, header in sent_batches(sim)] == [3, 6, 9, 3, 6, 9]
        assert sim.cluster.logs["t", 0].values()[3:] == [*values, b"newer"]
        sim.check_accounting()


def test_exhausted_share_does_not_block_other_queues() -> None:
    cluster = FakeCluster(topics={"t": 2})
    cluster.unanswered.add(ApiKey.INIT_PRODUCER_ID)
    with world(cluster, buffer_memory=128_000, request_timeout_ms=1_000) as sim:
        sim.send_batches(20, None)
        quotas, topic_partitions = (
            sim.buffer.quotas,
            [TopicPartition("t", n) for n in (0, 1)],
        )
        for topic_partition in topic_partitions:
            while quotas.charged_bytes(topic_partition) < 31_100:
                sim.send_batches(1, topic_partition.partition)
        assert quotas.partitions_over_quota(900, sim.client.metadata.cluster) == {"t": {0, 1}}
        cluster.unanswered.clear()
        sim.finish()
        sim.check_accounting()


def test_rejected_batch_does_not_affect_the_next_one() -> None:
    with world(FakeCluster(topics={"t": 1}), tolerant(None)) as sim:
        send_first_batches(sim)
        rejected = record_errors(0, 1, 2)
        sim.fault(Fault(error=ErrorCode.invalid_record, hold=True, extra=rejected))
        sim.send_batches(1, None)
        sim.run(lambda: len(sim.cluster.seen) == 1)
        values = sim.send_batches(1)
        sim.run(lambda: len(sim.cluster.seen) == 2)
        sim.cluster.release()
        sim.finish()
        assert [header.base_sequence for _, header in sent_batches(sim)] == [3, 6, 0]
        assert sim.cluster.logs["t", 0].values()[3:] == values
        assert sim.statuses() == {DeliveryStatus.PERSISTED: 6}


def test_unassigned_batch_that_expires_is_not_persisted_and_has_no_partition() -> None:
    with world(leaderless_cluster(), delivery_timeout_ms=2_000, request_timeout_ms=1_000) as sim:
        sim.send([b"a", b"b"], None)
        with pytest.raises(DeliveryError) as caught:
            sim.finish(0.1)
        assert caught.value.partition == UNASSIGNED
        (status,) = caught.value.statuses
        assert (status.partition, status.records) == (UNASSIGNED, 2)
        assert status.status is DeliveryStatus.NOT_PERSISTED
        (part,) = sim.report().partitions
        assert (part.topic, part.partition, part.not_persisted) == ("t", UNASSIGNED, 2)
        assert sim.cluster.seen == []
        sim.check_accounting()


def test_waiting_batches_are_sent_to_recreated_topic_with_fewer_partitions() -> None:
    with world(leaderless_cluster()) as sim:
        sim.send_batches(3, None)
        sim.steps(50)
        assert len(waiting_batches(sim)) + len(sim.buffer.accumulator.open_batches()) == 3
        sim.cluster.logs.clear()
        sim.cluster.create("t", 1)
        sim.finish()
        assert sim.cluster.logs["t", 0].end == 9
        assert [part.partition for part in sim.report().partitions] == [0]
        sim.check_accounting()


def test_partition_with_open_breaker_receives_nothing() -> None:
    breaker = BreakerConfig(target=Thresholds(failures=1), open_ms=100_000)
    settings = SessionSettings(throttling=ThrottlingConfig(breaker=breaker))
    with world(settings=settings) as sim:
        send_first_batches(sim)
        breakers = sim.buffer.breakers
        for partition in (0, 2, 3):
            topic_partition, now = TopicPartition("t", partition), sim.clock.monotonic()
            breakers.record(topic_partition, 9, BatchOutcome.FAILED, "X", now)
        sim.deliver_batches(8, None)
        assert {partition for partition, _ in sent_batches(sim)} == {1}


def test_broker_with_overdue_response_receives_nothing() -> None:
    options: dict[str, Any] = {"partitioner_availability_timeout_ms": 1_000}
    with world(FakeCluster(nodes=2, topics={"t": 2}), **options) as sim:
        send_first_batches(sim)
        sim.fault(Fault(hold=True))
        sim.send_batches(1, 1)
        sim.steps(250)
        sim.send_batches(20, None)
        sim.run(lambda: sim.cluster.logs["t", 0].end == 63)
        assert [partition for partition, _ in sent_batches(sim)] == [1] + [0] * 20
        sim.cluster.release()
        sim.finish()
        sim.deliver_batches(20, None)
        assert {partition for partition, _ in sent_batches(sim)[21:]} == {0, 1}
        sim.check_accounting()


def test_backlog_of_another_topic_does_not_block_waiting_batches() -> None:
    with world(FakeCluster(topics={"t": 2, "u": 2}), max_request_size=1_000) as sim:
        send_first_batches(sim)
        for _ in range(40):
            for partition in range(2):
                sim.send_batches(4, partition, "u")
            sim.steps(1)
        sim.send_batches(1, None)
        sim.close_batches()
        others = len(sim.buffer.queues.batches())
        assert others > 100
        assert len(waiting_batches(sim)) == 1
        sim.run(lambda: not waiting_batches(sim))
        left = len(sim.buffer.queues.batches())
        assert left > others - 40
        sim.finish()
        sim.check_accounting()


@pytest.mark.parametrize("seed", range(8))
def test_order_and_sequences_with_keyed_and_keyless_rows(seed: int) -> None:
    random = Random(seed)
    with world(FakeCluster(nodes=2, topics={"t": 3}), linger_ms=random.choice([0, 20])) as sim:
        faults = [
            None,
            None,
            None,
            Fault(error=ErrorCode.not_enough_replicas),
            Fault(lose=True),
            Fault(lose=True, append=True),
        ]
        sim.fault(*random.choices([*faults, Fault(hold=True)], k=60))
        for number in range(150):
            partition = random.choice([0, 1, 2, None, None])
            mark = b"%r-%04d" % (partition, number)
            sim.send([mark + b"." * random.randrange(400)], partition)
            sim.steps(random.randrange(3))
            if number % 20 == 0:
                sim.cluster.release()
        sim.cluster.faults.clear()
        for _ in range(400):
            sim.cluster.release()
            sim.steps(5)
        sim.finish()
        sim.check_accounting()
        values = {
            topic_partition: log.values() for topic_partition, log in sim.cluster.logs.items()
        }
        assert sum(len(log) for log in values.values()) == 150
        for (_, partition), log_values in values.items():
            mine = [
                value[:6] for value in log_values if value and value.startswith(b"%d" % partition)
            ]
            assert mine == sorted(mine)
            assert all(value[:1] in (b"N", b"%d" % partition) for value in log_values if value)


def test_with_acks_0_each_batch_counts_for_its_partition() -> None:
    with world(acks="0", enable_idempotence="false") as sim:
        sim.deliver_batches(8, None)
        assert sim.statuses() == {DeliveryStatus.SENT: 24}
        assert {part.partition for part in sim.report().partitions} <= {0, 1, 2, 3}


def test_statistics_contain_unassigned_batches(sim: World) -> None:
    send_first_batches(sim)
    sim.fault(*[Fault(hold=True)] * 5)
    sim.send_batches(25, None)
    sim.steps(10)
    line = sim.statistics.collect(sim.clock.monotonic())
    part = line["topics"]["t"]["partitions"]["-1"]
    assert (part["xmit_msgq_cnt"], part["leader"], part["msgs_inflight"]) == (15, -1, 0)
    assert line["msg_cnt"] == 75
    sim.cluster.release()
    sim.finish()
