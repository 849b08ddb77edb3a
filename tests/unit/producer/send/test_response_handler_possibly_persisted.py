"""A batch that may be in the log is retried unchanged, or not at all.
If it is too large, it is split with the same sequences: the log rejects duplicates.
"""

from dataclasses import replace

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import record_errors, tolerant

PERSISTED = DeliveryStatus.PERSISTED
POSSIBLY, NOT = DeliveryStatus.POSSIBLY_PERSISTED, DeliveryStatus.NOT_PERSISTED
NAMED = record_errors(1)

DOUBTS = {
    "cut": Fault(lose=True),
    "silent": Fault(hold=True),
    "after append": Fault(error=ErrorCode.not_enough_replicas_after_append, append=True),
    "timed out": Fault(error=ErrorCode.request_timed_out, append=True),
    "stepped down": Fault(error=ErrorCode.not_leader_or_follower, append=True),
}
REJECTIONS = {
    "too large": Fault(error=ErrorCode.message_too_large),
    "list too large": Fault(error=ErrorCode.record_list_too_large),
    "invalid timestamp": Fault(error=ErrorCode.invalid_timestamp, extra=NAMED),
    "invalid record": Fault(error=ErrorCode.invalid_record, extra=NAMED),
    "unnamed": Fault(error=ErrorCode.invalid_record),
    "codec": Fault(error=ErrorCode.unsupported_compression_type),
    "unknown producer": Fault(error=ErrorCode.unknown_producer_id),
}


@pytest.fixture(params=[SessionSettings(), tolerant(None), tolerant()])
def settings(request: pytest.FixtureRequest) -> SessionSettings:
    settings: SessionSettings = request.param
    return settings


def sequence_of(data: bytes) -> tuple[int, int, int, int]:
    header = BatchHeader.parse(data)
    return (
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


def check(sim: World, doubtful: list[bytes]) -> None:
    """Check that the log has each row once, doubts are reported, and dead letters have no copy."""
    with pytest.raises(DeliveryError) as caught:
        sim.finish(0.02)
    sim.check_accounting()
    statuses = sim.statuses()
    assert statuses[POSSIBLY] == len(doubtful)
    assert any(status.status is POSSIBLY for status in caught.value.statuses)
    values = sim.cluster.logs["t", 0].values()
    assert len(values) == len(set(values))
    assert len(values) == statuses[PERSISTED] + len(doubtful)
    assert not sim.cluster.logs["dead", 0].values()
    assert not sim.report().poison


@pytest.mark.parametrize("rejection", REJECTIONS)
@pytest.mark.parametrize("doubt", DOUBTS)
@pytest.mark.parametrize("rows", [3, 1])
def test_possibly_appended_batch_is_not_appended_twice(
    settings: SessionSettings, doubt: str, rejection: str, rows: int
) -> None:
    cluster = FakeCluster(topics={"t": 1, "dead": 1})
    rejected = replace(REJECTIONS[rejection], extra={}) if rows == 1 else REJECTIONS[rejection]
    with world(cluster, settings, request_timeout_ms=1_000) as sim:
        sim.deliver([b"first"])
        sim.fault(DOUBTS[doubt], rejected)
        values = [b"%d" % row + b"." * 270 for row in range(rows)]
        sim.send(values)
        check(sim, values)
        again = [sequence_of(data) for seen in cluster.seen[1:] for data in seen.batches.values()]
        assert again[:2] == [again[0]] * 2
        parts = [(*again[0][:3], 1)] if rows > 1 and rejection.endswith("too large") else []
        assert again[2:] == parts


@pytest.mark.parametrize("rejection", ["invalid timestamp", "invalid record", "unnamed"])
def test_clearly_rejected_batch_is_still_split(rejection: str) -> None:
    """A response that confirms that nothing was appended leaves no doubt."""
    cluster = FakeCluster(topics={"t": 1})
    rows = 1 if rejection == "unnamed" else 3
    with world(cluster, tolerant(None)) as sim:
        sim.deliver([b"first"])
        sim.fault(Fault(error=ErrorCode.not_enough_replicas), REJECTIONS[rejection])
        values = [b"%d" % row + b"." * 270 for row in range(rows)]
        sim.deliver(values)
        log = cluster.logs["t", 0].values()[1:]
        assert log == ([] if rows == 1 else [values[0], values[2]])
        assert sim.statuses() == {PERSISTED: 1 + len(log)}
