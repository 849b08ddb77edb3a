"""Commits on their way to the broker: which one is held back, in every version of EndTxn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.protocol.message_builder import build
from spark_kafka_sink.protocol.messages import request_frame
from spark_kafka_sink.protocol.versions import ApiKey, request_type
from tools.torture_eos.kafka.end_txns import EndTxns

VERSIONS = (0, 3, 5)


def _frame(version: int, transactional_id: str, *, committed: bool) -> bytes:
    values = {"transactional_id": transactional_id, "producer_id": 1, "committed": committed}
    return request_frame(build(request_type(ApiKey.END_TXN, version), values), 7, "client")[4:]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_second_commit_is_held(version: int) -> None:
    ends = EndTxns()
    ends.arm(r"a/[^/]+/3/", 2)
    ends.pass_by(_frame(version, "a/q/3/0", committed=True))
    ends.pass_by(_frame(version, "a/q/3/0", committed=True))  # the same again
    ends.pass_by(_frame(version, "a/q/3/1", committed=False))
    ends.pass_by(_frame(version, "a/q/2/1", committed=True))
    assert not ends.reached.is_set()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(ends.pass_by, _frame(version, "a/q/3/1", committed=True))
        assert ends.reached.wait(60)
        assert not held.done()
        ends.released.set()
        held.result(60)


def test_nothing_is_held_unless_it_is_wanted() -> None:
    ends = EndTxns()
    ends.pass_by(_frame(5, "a/q/3/0", committed=True))
    assert not ends.reached.is_set()
