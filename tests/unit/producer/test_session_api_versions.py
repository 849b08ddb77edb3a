"""All versions of all APIs that the producer uses, and brokers of older releases."""

from collections.abc import Mapping

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import CLIENT_VERSIONS, ApiKey, VersionRange
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.world import World, world

PERSISTED, NOT = DeliveryStatus.PERSISTED, DeliveryStatus.NOT_PERSISTED
SPOKEN = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE)
EVERY = [
    (api, version)
    for api in SPOKEN
    for version in range(CLIENT_VERSIONS[api].lowest, CLIENT_VERSIONS[api].highest + 1)
]
HIGHEST: Mapping[str, Mapping[ApiKey, int]] = {
    release: dict(zip(SPOKEN, versions, strict=True))
    for release, versions in {
        "2.1": (2, 7, 1, 7),
        "2.8": (3, 11, 4, 9),
        "3.9": (4, 12, 5, 11),
        "4.3": (4, 13, 5, 13),
    }.items()
}


def cluster_of(highest: Mapping[ApiKey, int]) -> FakeCluster:
    """Create two brokers whose highest versions are these."""
    cluster = FakeCluster(nodes=2, topics={"t": 2, "u": 1})
    for api, version in highest.items():
        cluster.versions[api] = VersionRange(min(version, 0), version)
    return cluster


def write_with_faults(sim: World) -> None:
    """Write with retries, a lost response, a leader change, a split and a broker failure; check
    that all records arrive.
    """
    cluster, sent = sim.cluster, []
    for faults in (
        (),
        (Fault(error=ErrorCode.request_timed_out), Fault(error=ErrorCode.not_enough_replicas)),
        (Fault(lose=True),),
        (Fault(error=ErrorCode.message_too_large),),
        (Fault(throttle_ms=20),),
    ):
        sim.fault(*faults)
        sent += sim.send_batches(4)
        sim.finish()
    cluster.move("t", 0, 2)
    sent += sim.send_batches(3)
    sim.finish()
    cluster.move("t", 0, 1)
    cluster.stop(2)
    cluster.move("t", 1, 1)
    sent += sim.send_batches(2)
    other = sim.deliver_batches(2, partition=1)
    assert cluster.logs["t", 0].values() == sent
    assert cluster.logs["t", 1].values() == other
    assert sim.statuses() == {PERSISTED: sim.appended}
    sim.check_accounting()


@pytest.mark.parametrize(("api", "version"), EVERY, ids=lambda value: getattr(value, "name", None))
def test_every_version_of_every_api(api: ApiKey, version: int) -> None:
    with world(cluster_of({api: version})) as sim:
        write_with_faults(sim)
        assert (api, version) in sim.cluster.served_versions


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("release", HIGHEST)
def test_every_codec_on_brokers_of_each_release(release: str, codec: str) -> None:
    with world(cluster_of(HIGHEST[release]), compression_type=codec) as sim:
        write_with_faults(sim)
        assert sim.cluster.served_versions == set(HIGHEST[release].items())
        headers = map(BatchHeader.parse, sim.cluster.logs["t", 0].batches)
        assert {header.codec.name.lower() for header in headers} == {codec}


@pytest.mark.parametrize("release", HIGHEST)
def test_topic_that_does_not_exist_yet(release: str) -> None:
    """A broker that creates the topic responds with LEADER_NOT_AVAILABLE."""
    with world(cluster_of(HIGHEST[release])) as sim:
        sim.cluster.metadata_errors["late"] = ErrorCode.leader_not_available
        sim.add_topics(("late",))
        sim.steps(100)
        assert "late" not in sim.client.metadata.cluster.topics
        sim.cluster.create("late", 1)
        del sim.cluster.metadata_errors["late"]
        sim.run(lambda: "late" in sim.client.metadata.cluster.topics)
        values = sim.deliver_batches(2, topic="late")
        assert sim.cluster.logs["late", 0].values() == values


@pytest.mark.parametrize("release", HIGHEST)
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.message_too_large,
        ErrorCode.invalid_topic_exception,
        ErrorCode.topic_authorization_failed,
        ErrorCode.unsupported_for_message_format,
        ErrorCode.invalid_record,
        ErrorCode.producer_fenced,
    ],
)
def test_rejection_by_brokers_of_each_release(release: str, code: int) -> None:
    with world(cluster_of(HIGHEST[release])) as sim:
        sim.send([b"one"])
        sim.fault(Fault(error=code))
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert (caught.value.topic, caught.value.partition) == ("t", 0)
        assert sim.statuses() == {NOT: 1}


@pytest.mark.parametrize("version", range(3, 7))
def test_zstd_requires_produce_7(version: int) -> None:
    """As in Java: older brokers would reject the batch or misread it (KIP-110)."""
    with world(cluster_of({ApiKey.PRODUCE: version}), compression_type="zstd") as sim:
        sim.send_batches(2)
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert caught.value.kafka_error == "UNSUPPORTED_COMPRESSION_TYPE"
        assert "2.1" in str(caught.value.hint)
        assert not sim.cluster.seen
        assert sim.statuses() == {NOT: 6}
        sim.check_accounting()


def test_without_common_version_each_record_has_a_status() -> None:
    with world(cluster_of({ApiKey.PRODUCE: 2})) as sim:
        sim.send_batches(2)
        with pytest.raises(DeliveryError) as caught:
            sim.finish()
        assert caught.value.kafka_error == "UNSUPPORTED_VERSION"
        assert sim.statuses() == {NOT: 6}
        sim.check_accounting()


@pytest.mark.parametrize("version", [7, 8])
def test_leader_epochs_before_metadata_9_are_ignored(version: int) -> None:
    """Such brokers may return an outdated epoch during a reassignment."""
    with world(cluster_of({ApiKey.METADATA: version})) as sim:
        sim.cluster.logs["t", 0].leader_epoch = 9
        sim.client.metadata.request_refresh()
        sim.deliver_batches(1)
        log = sim.cluster.logs["t", 0]
        log.leader, log.leader_epoch = 2, 8
        values = sim.deliver_batches(1)
        assert log.values()[3:] == values
        assert sim.cluster.seen[-1].node == 2


@pytest.mark.parametrize(("version", "waits"), [(5, False), (6, True)])
def test_client_side_throttling_starts_with_produce_6(version: int, waits: bool) -> None:
    """Before KIP-219, the broker itself delays the response."""
    with world(cluster_of({ApiKey.PRODUCE: version})) as sim:
        sim.fault(Fault(throttle_ms=1_000))
        sim.deliver_batches(1)
        sim.deliver_batches(1)
        pause = sim.cluster.seen[1].at - sim.cluster.seen[0].at
        assert (pause >= 1.0) is waits


def test_cluster_with_brokers_of_two_releases() -> None:
    """During a rolling upgrade, metadata comes with or without topic ids and epochs."""
    with world(FakeCluster(nodes=2, topics={"t": 2}), metadata_max_age_ms=100) as sim:
        cluster, values = sim.cluster, []
        for step in range(6):
            highest = HIGHEST["2.1" if step % 2 else "4.3"]
            for api, version in highest.items():
                cluster.versions[api] = VersionRange(0, version)
            cluster.move("t", 0, 1 + step % 2)
            sim.client.network.forget_all("the brokers are restarted", sim.clock.monotonic())
            values += sim.send_batches(3)
            sim.finish()
        assert cluster.logs["t", 0].values() == values
        assert {(ApiKey.METADATA, 7), (ApiKey.METADATA, 13)} < cluster.served_versions
        assert sim.statuses() == {PERSISTED: sim.appended}
