"""A metadata refresh is complete with the response to a request sent after it was requested."""

from concurrent.futures import ThreadPoolExecutor

from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.world import World, world
from tests.support.harness.writer_thread import Writer

MAX_AGE_S = 10.0


def metadata_requests(sim: World) -> int:
    return sum(api is ApiKey.METADATA for _, api in sim.cluster.requests)


def send_request(sim: World) -> None:
    """Let the brokers answer a metadata request without delivering the response to the client."""
    sim.clock.advance(MAX_AGE_S)
    before = metadata_requests(sim)
    sim.step(0.0)
    assert metadata_requests(sim) == before + 1


def test_refresh_is_not_completed_by_an_older_request() -> None:
    with world(metadata_max_age_ms=int(MAX_AGE_S * 1_000)) as sim:
        send_request(sim)
        sim.client.metadata.refresh()
        before = metadata_requests(sim)
        sim.steps(100, tick=0.01)
        assert metadata_requests(sim) == before + 1


def test_one_request_completes_all_earlier_refreshes() -> None:
    with world(metadata_max_age_ms=int(MAX_AGE_S * 1_000)) as sim:
        before = metadata_requests(sim)
        for _ in range(5):
            sim.client.metadata.refresh()
        sim.steps(100, tick=0.01)
        assert metadata_requests(sim) == before + 1


def test_writer_waits_for_the_response_to_its_own_request() -> None:
    """Its partition was created after the brokers had answered the request in flight."""
    cluster = FakeCluster(topics={"t": 2})
    with world(cluster, metadata_max_age_ms=int(MAX_AGE_S * 1_000)) as sim:
        with ThreadPoolExecutor(1) as pool:
            send_request(sim)
            for partition in (2, 3):
                cluster.logs["t", partition] = FakeLog(leader=1)
            writer = Writer(sim, pool)
            assert writer.finish(writer.start(lambda: sim.send([b"new"], 3))) is None
            assert writer.call(sim.session.flush) is None
        assert cluster.logs["t", 3].values() == [b"new"]
