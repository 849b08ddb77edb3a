"""A wish for fresh metadata is met by the answer to a request that was sent after it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from spark_kafka_sink.protocol.versions import ApiKey
from tests.support.harness.fake import FakeCluster
from tests.support.harness.log import FakeLog
from tests.support.harness.world import World, world
from tests.unit.producer.append.test_first_metadata import Writer

MAX_AGE_S = 10.0


def asked(sim: World) -> int:
    return sum(api is ApiKey.METADATA for _, api in sim.cluster.requests)


def send_request(sim: World) -> None:
    """A metadata request is answered by the brokers; the client has yet to take the answer."""
    sim.clock.advance(MAX_AGE_S)
    before = asked(sim)
    sim.step(0.0)
    assert asked(sim) == before + 1


def test_a_wish_outlives_the_answer_to_an_older_request() -> None:
    with world(metadata_max_age_ms=int(MAX_AGE_S * 1_000)) as sim:
        send_request(sim)
        sim.client.metadata.refresh()
        before = asked(sim)
        sim.steps(100, tick=0.01)
        assert asked(sim) == before + 1


def test_one_request_meets_every_wish_before_it() -> None:
    with world(metadata_max_age_ms=int(MAX_AGE_S * 1_000)) as sim:
        before = asked(sim)
        for _ in range(5):
            sim.client.metadata.refresh()
        sim.steps(100, tick=0.01)
        assert asked(sim) == before + 1


def test_the_writer_waits_for_the_answer_to_a_request_of_its_own() -> None:
    """Its partition was made after the brokers had answered the request that was under way."""
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
