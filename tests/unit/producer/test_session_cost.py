"""The cost of a batch depends on neither the number of rows nor of other partitions."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.header_lists import HEADER_LISTS
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from spark_kafka_sink.producer.bad_rows.dead_letter import DeadLetterTopic
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.fake import FakeCluster
from tests.support.harness.offline import config, offline
from tests.support.harness.world import World, world

FEW, MANY = 1_000, 8_000
"""Row counts whose largest offset deltas have varints of the same size."""
# One batch per partition for any number of rows, so that only the rows differ.
SETTINGS = {"batch_size": 16 << 20, "buffer_memory": 256 << 20, "max_request_size": 32 << 20}

FEW_PARTITIONS, MANY_PARTITIONS = 8, 800
BUFFER = 1 << 20


def binary(rows: int, make: Callable[[int], bytes | None]) -> pa.BinaryArray:
    return pa.array([make(row) for row in range(rows)], pa.binary())


def plain_rows(rows: int) -> Rows:
    return Rows(columns=Columns(value=binary(rows, lambda _: b"v" * 100)), topics=("a",))


def keyed(rows: int) -> Rows:
    value = binary(rows, lambda _: b"v" * 100)
    key = binary(rows, lambda row: b"key-%05d" % row)
    return Rows(columns=Columns(value=value, key=key), topics=("a",))


def ragged(rows: int) -> Rows:
    value = binary(rows, lambda row: None if row % 11 == 0 else b"v" * (row % 300))
    key = binary(rows, lambda row: None if row % 3 == 0 else b"k" * (row % 37))
    return Rows(columns=Columns(value=value, key=key), topics=("a",))


def header_lists(rows: Sequence[list[dict[str, bytes]] | None]) -> pa.ListArray[Any]:
    return cast("pa.ListArray[Any]", pa.array(rows, HEADER_LISTS))


def with_headers(rows: int) -> Rows:
    entry = {"key": b"h", "value": b"w" * 9}
    lists = [None if row % 5 == 0 else [entry] * (row % 4) for row in range(rows)]
    value = binary(rows, lambda _: b"v" * 100)
    headers = encode_headers(header_lists(lists))
    return Rows(columns=Columns(value=value, headers=headers), topics=("a",))


def many_topics(rows: int) -> Rows:
    numbers = np.arange(rows, dtype=np.int32)
    return Rows(columns=ragged(rows).columns, topics=("a", "b", "c"), topic_indexes=numbers * 7 % 3)


def stamped(rows: int) -> Rows:
    stamps = 1_700_000_000_000 + np.arange(rows, dtype=np.int64) * 9_973 % 100_000
    value = binary(rows, lambda _: b"v" * 100)
    return Rows(columns=Columns(value=value, timestamps=stamps), topics=("a",))


def explicit(rows: int) -> Rows:
    partitions = [None if row % 4 == 0 else row % 6 for row in range(rows)]
    return Rows(
        columns=ragged(rows).columns, topics=("a",), partition=pa.array(partitions, pa.int32())
    )


SHAPES = [plain_rows, keyed, ragged, with_headers, many_topics, stamped, explicit]


def count_calls(work: Callable[[], object]) -> Counter[tuple[str, str]]:
    """Count calls of Python and C functions by name while `work` runs."""
    calls: Counter[tuple[str, str]] = Counter()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            calls["python", frame.f_code.co_qualname] += 1
        elif event == "c_call":
            calls["c", getattr(argument, "__qualname__", str(argument))] += 1

    gc.disable()  # a collection may call Python code at any time
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def calls_for(rows: Rows) -> Counter[tuple[str, str]]:
    with offline(config(**SETTINGS), {"a": 6, "b": 3, "c": 1}) as session:
        calls = count_calls(lambda: session.append(rows))
        batches = session.buffer.accumulator.take_all()
    assert sum(batch.records for batch in batches) == len(rows)
    return calls


@pytest.mark.parametrize("shape", SHAPES)
def test_calls_do_not_grow_with_rows(shape: Callable[[int], Rows]) -> None:
    calls_for(shape(MANY))  # varint tables are built once per process
    few, many = calls_for(shape(FEW)), calls_for(shape(MANY))
    assert many == few
    assert sum(few.values()) > 20


def test_header_lists_are_encoded_without_python_per_row() -> None:
    lists = [[{"key": b"k", "value": b"v"}] * (row % 4) for row in range(MANY)]
    arrays = [header_lists(lists[:rows]) for rows in (FEW, MANY)]
    few, many = (count_calls(partial(encode_headers, array)) for array in arrays)
    assert many == few


def test_counter_detects_a_call_per_row() -> None:
    few, many = (count_calls(partial(plain_rows, rows)) for rows in (FEW, MANY))
    assert many != few


def test_dead_letters_are_created_without_python_per_row() -> None:
    topic = DeadLetterTopic(name="dead", context_headers=True, task=0)

    def letters(rows: int) -> Rows:
        plain = with_headers(rows)
        entry = {"key": b"h", "value": b"w" * 9}
        lists = header_lists([[entry] * (row % 3) for row in range(rows)])
        return replace(plain, header_lists=lists)

    # The first call fills caches of abstract base classes.
    few, many = [
        count_calls(partial(topic.to_dead_letters, rows, np.ones(len(rows), np.int8)))
        for rows in (letters(FEW), letters(FEW), letters(MANY))
    ][1:]
    assert many == few


def rows(partitions: int) -> Rows:
    """Return one row for each partition."""
    numbers = pa.array(range(partitions), pa.int32())
    values = pa.array([b"x" * 600] * partitions, pa.binary())
    return Rows(columns=Columns(value=values), topics=("t",), partition=numbers)


def drain_with_a_retry(sim: World, partitions: int) -> int:
    """Return the calls of the drainer if each partition has a state, and one has a retry."""
    sim.session.append(rows(partitions))
    sim.finish()
    state = sim.sender.partitions.of(TopicPartition("t", 0))
    sim.session.append(rows(1))
    sim.buffer.accumulator.close_due(sim.clock.monotonic() + 1)
    batch = sim.buffer.queues.head(state.topic_partition)
    assert batch is not None
    sim.buffer.accumulator.drain(batch, state.topic_partition)
    state.mark_sent(batch, 1)
    state.retry(batch, sim.clock.monotonic() + 10)
    return count_calls(lambda: sim.sender.drainer.drain(sim.clock.monotonic())).total()


def append_under_pressure(sim: World, partitions: int) -> int:
    """Return the calls of an append while more than half of the buffer is used."""
    sim.session.append(rows(partitions))
    pool = sim.buffer.pool
    pool.charge(BUFFER * 3 // 4 - pool.used)
    return count_calls(lambda: sim.session.append(rows(1))).total()


def check_quota(sim: World, partitions: int) -> int:
    """Return the calls of the check whether a batch without a partition may get a partition."""
    sim.session.append(rows(partitions))
    quotas, cluster = sim.buffer.quotas, sim.client.metadata.cluster
    topic_partition = TopicPartition("t", 0)
    quotas.change(topic_partition, BUFFER // 2)
    assert quotas.is_over_quota(topic_partition, BUFFER // 2, cluster)
    return count_calls(lambda: quotas.is_over_quota(topic_partition, 1, cluster)).total()


@pytest.mark.parametrize("work", [drain_with_a_retry, append_under_pressure, check_quota])
def test_cost_is_constant(work: Callable[[World, int], int]) -> None:
    counts = []
    for partitions in (FEW_PARTITIONS, MANY_PARTITIONS):
        cluster = FakeCluster(topics={"t": partitions})
        with world(cluster, buffer_memory=BUFFER, linger_ms=1_000, batch_size=10_000) as sim:
            counts.append(work(sim, partitions))
    assert counts[1] <= counts[0] + 10
