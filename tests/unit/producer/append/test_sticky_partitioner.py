"""Partitions of keyless rows that are chosen when the rows are appended."""

from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from tests.support.harness.fake import FakeCluster
from tests.support.harness.world import World, world

UNASSIGNED_QUEUE = TopicPartition("t", UNASSIGNED)


def unassigned_rows(sim: World) -> int:
    """Return the number of rows without a partition in the open batch."""
    open_batches = dict(sim.buffer.accumulator.open_batches())
    batch = open_batches.get(UNASSIGNED_QUEUE)
    return 0 if batch is None else batch.records


def test_keyless_rows_join_a_waiting_batch_of_rows_with_partition() -> None:
    with world(FakeCluster(topics={"t": 1}), linger_ms=10**6) as sim:
        for number, partition in enumerate([0, None] * 4):
            sim.send([b"%d" % number], partition)
        sim.close_batches()
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == [b"%d" % number for number in range(8)]
        assert len(sim.cluster.seen) == 1


def test_rows_are_unassigned_again_after_the_assigned_ones_are_sent() -> None:
    with world(linger_ms=10**6) as sim:
        sim.send([b"first"], 2)
        sim.send([b"second"], None)
        assert unassigned_rows(sim) == 0
        sim.close_batches()
        sim.finish()
        sim.send([b"third"], None)
        assert unassigned_rows(sim) == 1
        sim.send([b"fourth"], 2)
        queued = sim.buffer.queues.batches()
        assert [(batch.topic_partition, batch.records) for batch in queued] == [
            (UNASSIGNED_QUEUE, 1)
        ]
        sim.close_batches()
        sim.finish()
        sim.check_accounting()
