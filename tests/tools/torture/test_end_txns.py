"""The proxy holds the selected commit, in all versions of EndTxn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.kafka.protocol.messages import build, request_frame
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type
from tools.torture.proxy import EndTxns
from tools.torture.streams.scenarios import Sink, Step, Stop
from tools.torture.streams.supervisor import end_txn_of

VERSIONS = (0, 3, 5)


def _frame(version: int, transactional_id: str, *, committed: bool, epoch: int = 0) -> bytes:
    values = {
        "transactional_id": transactional_id,
        "producer_id": 1,
        "producer_epoch": epoch,
        "committed": committed,
    }
    return request_frame(build(request_type(ApiKey.END_TXN, version), values), 7, "client")[4:]


@pytest.mark.parametrize("version", VERSIONS)
def test_second_commit_is_held(version: int) -> None:
    ends = EndTxns()
    ends.arm(r"a/[^/]+/3/", 2)
    ends.wait_if_held(_frame(version, "a/q/3/0", committed=True))
    ends.wait_if_held(_frame(version, "a/q/3/0", committed=True))  # the same again
    ends.wait_if_held(_frame(version, "a/q/3/1", committed=False))
    ends.wait_if_held(_frame(version, "a/q/2/1", committed=True))
    assert not ends.reached.is_set()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(ends.wait_if_held, _frame(version, "a/q/3/1", committed=True))
        assert ends.reached.wait(60)
        assert not held.done()
        ends.released.set()
        held.result(60)


@pytest.mark.parametrize(
    ("sink", "batch", "expected"),
    [
        (Sink.EXACTLY_ONCE, 3, ("/stream/[^/]+/3/", 2)),
        (Sink.EXACTLY_ONCE, None, ("/batch/[^/]+/", 2)),
        (Sink.ATOMIC, 3, ("/stream$", 4)),
        (Sink.ATOMIC, None, ("/batch/[^/]+$", 1)),
    ],
)
def test_selected_commit(sink: Sink, batch: int | None, expected: tuple[str, int]) -> None:
    assert end_txn_of(Stop(step=Step.END_TXN, batch=batch, hit=2), sink) == expected


def test_transactions_of_one_id_are_distinguished() -> None:
    ends = EndTxns()
    ends.arm("a/stream$", 2)
    ends.wait_if_held(_frame(5, "a/stream", committed=True, epoch=4))
    ends.wait_if_held(_frame(5, "a/stream", committed=True, epoch=4))  # the same again
    ends.wait_if_held(_frame(5, "a/stream", committed=False, epoch=6))
    ends.wait_if_held(_frame(5, "a/stream/q/1/0", committed=True, epoch=7))
    assert not ends.reached.is_set()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(ends.wait_if_held, _frame(5, "a/stream", committed=True, epoch=8))
        assert ends.reached.wait(60)
        ends.released.set()
        held.result(60)


def test_nothing_is_held_by_default() -> None:
    ends = EndTxns()
    ends.wait_if_held(_frame(5, "a/q/3/0", committed=True))
    assert not ends.reached.is_set()
