"""Any sequence of faults: no duplicates, no silent loss, order and accounting intact."""

from contextlib import suppress
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.property.tolerated_faults import PASSES, limit, passing
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

T = TypeVar("T")
PARTITIONS = 3
UNKNOWN_CODE = 9_999
failing = st.builds(
    Fault,
    error=st.sampled_from(
        [
            ErrorCode.unknown_server_error,
            ErrorCode.topic_authorization_failed,
            ErrorCode.out_of_order_sequence_number,
            ErrorCode.invalid_producer_epoch,
            ErrorCode.unknown_producer_id,
            ErrorCode.invalid_record,
            UNKNOWN_CODE,
        ]
    ),
)
moves = st.lists(st.tuples(st.integers(1, 60), st.integers(0, PARTITIONS - 1)), max_size=3)
work = st.lists(st.tuples(st.integers(0, PARTITIONS - 1), st.integers(1, 5)), max_size=8)
# The codec, and the brokers' batch limit: 700 bytes split every full batch.
codecs = st.sampled_from([("none", PASSES), ("none", 700), ("lz4", PASSES)])
quietly = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def play(sim: World, todo: list[tuple[int, int]], moved: list[tuple[int, int]]) -> None:
    """Append, move leaders and release held responses until all batches are settled."""
    steps = dict(moved)
    state = sim.buffer.state
    for step in range(8_000):
        if todo and not step % 3 and state.error is None:
            partition, count = todo.pop()
            sim.send_batches(count, partition)
        if step in steps:
            log = sim.cluster.logs["t", steps[step]]
            sim.cluster.move("t", steps[step], 3 - log.leader)
        if not step % 40:
            sim.cluster.release()
        sim.step()
        if state.error is not None or not (todo or state.incomplete_batches):
            return
    raise AssertionError("it takes for ever")


def make_values_unique(sim: World) -> None:
    """Make the values of the world's batches unique."""
    sent: dict[int, int] = dict.fromkeys(range(PARTITIONS), 0)

    def send_batches(count: int, partition: int = 0) -> None:
        first = sent[partition]
        sent[partition] += 3 * count
        sim.send([b"%06d" % n + b"." * 270 for n in range(first, first + 3 * count)], partition)

    sim.send_batches = send_batches  # type: ignore[assignment,method-assign]


@pytest.mark.deep
@given(st.lists(st.one_of(passing, failing), min_size=1, max_size=25), work, moves, codecs)
@quietly
def test_accounting_is_correct_after_any_faults(
    faults: list[Fault | None],
    todo: list[tuple[int, int]],
    moved: list[tuple[int, int]],
    codec: tuple[str, int],
) -> None:
    cluster = FakeCluster(nodes=2, topics={"t": PARTITIONS})
    with world(cluster, compression_type=codec[0]) as sim:
        limit(cluster, codec[1])
        make_values_unique(sim)
        sim.fault(*faults)
        with suppress(DeliveryError):
            play(sim, list(todo), moved)
        sim.check_accounting()
        counts = sim.statuses()
        logged = 0
        for partition in range(PARTITIONS):
            values = [int((value or b"")[:6]) for value in cluster.logs["t", partition].values()]
            assert values == sorted(set(values)), "no record twice, none out of order"
            logged += len(values)
        persisted = counts.get(DeliveryStatus.PERSISTED, 0)
        possibly = counts.get(DeliveryStatus.POSSIBLY_PERSISTED, 0)
        assert persisted <= logged <= persisted + possibly
