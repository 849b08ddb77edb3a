"""Random faults with seeds: committable transactions contain each record once and in order."""

import random

import pytest

from spark_kafka_sink.common.errors import DeliveryError, ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from tests.support.harness.coordinator import CoordinatorFault
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import record_errors, tolerant

SEEDS = 40
CLEAR = (
    ErrorCode.not_enough_replicas,
    ErrorCode.concurrent_transactions,
    ErrorCode.out_of_order_sequence_number,
)
UNCLEAR = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_leader_or_follower,
    ErrorCode.request_timed_out,
    ErrorCode.not_enough_replicas_after_append,
)
"""Errors after which the log may contain the batch."""
COORDINATOR_APIS = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
)


def random_fault(rng: random.Random) -> Fault | None:
    """Return a fault for a Produce request, or None in half of the cases."""
    kind = rng.choice(
        ["none"] * 5 + ["refused", "too large", "clear", "unclear", "appended", "lost"]
    )
    match kind:
        case "refused":
            bad = rng.sample(range(3), rng.randint(1, 3))
            return Fault(
                error=rng.choice([ErrorCode.invalid_record, ErrorCode.invalid_timestamp]),
                extra=record_errors(*sorted(bad)),
            )
        case "too large":
            return Fault(error=ErrorCode.message_too_large)
        case "clear":
            return Fault(error=rng.choice(CLEAR))
        case "unclear":
            return Fault(error=rng.choice(UNCLEAR))
        case "appended":
            return Fault(error=rng.choice(UNCLEAR), append=True)
        case "lost":
            return Fault(lose=True)
    return None


def disturb(sim: World, rng: random.Random) -> None:
    for api in COORDINATOR_APIS:
        for _ in range(rng.randint(0, 2)):
            error = rng.choice(
                [
                    ErrorCode.coordinator_load_in_progress,
                    ErrorCode.coordinator_not_available,
                    ErrorCode.not_coordinator,
                    ErrorCode.concurrent_transactions,
                    None,
                ]
            )
            trouble = CoordinatorFault(error=error, lose=rng.random() < 0.5)
            sim.cluster.coordinator.faults[api].append(trouble)
    sim.fault(*[random_fault(rng) for _ in range(rng.randint(2, 12))])


def check(sim: World, sent: dict[int, list[bytes]]) -> None:
    """Check that each log has the sent records in order and once, except for dead letters.

    A dead letter of an oversized record has no value, so these are only counted.
    """
    missing = 0
    for partition, values in sent.items():
        log = sim.cluster.logs["t", partition]
        there = set(log.values())
        assert log.values() == [value for value in values if value in there]
        missing += len(values) - len(there)
        expected = 0
        for header in map(BatchHeader.parse, log.batches):
            assert header.is_transactional
            assert header.base_sequence == expected
            expected += header.record_count
    assert sim.cluster.logs["dead", 0].end == missing


def run(seed: int, version: int) -> bool:
    """Run once; return True if the transaction can be committed."""
    rng = random.Random(seed)
    cluster = FakeCluster(topics={"t": 3, "dead": 1})
    cluster.coordinator.version = version
    settings = TransactionSettings(transactional_id=f"seed-{seed}", timeout_ms=600_000)
    with world(cluster, tolerant(), transaction=settings, request_timeout_ms=1_000) as sim:
        sent: dict[int, list[bytes]] = {0: [], 1: []}
        disturb(sim, rng)
        try:
            for burst in range(3):
                for partition in sent:
                    count = 3 * rng.randint(1, 5)
                    name = f"{seed}-{burst}-{partition}".encode()
                    values = [b"%s-%03d" % (name, n) + b"." * 265 for n in range(count)]
                    sim.send(values, partition)
                    sent[partition] += values
                sim.steps(rng.randint(0, 20))
            sim.finish(0.02)
        except (DeliveryError, ProtocolError):
            with pytest.raises((DeliveryError, ProtocolError)):
                sim.session.flush_transaction()
            return False
        assert sim.session.flush_transaction() is not None
        check(sim, sent)
        return True


@pytest.mark.parametrize("version", [0, 2], ids=["V1", "V2"])
def test_no_loss_duplicate_or_reordering(version: int) -> None:
    succeeded = sum(run(seed, version) for seed in range(SEEDS))
    assert SEEDS // 4 < succeeded < SEEDS
