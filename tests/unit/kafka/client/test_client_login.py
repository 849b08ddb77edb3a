"""Login at brokers, re-authentication, and sessions whose login is rejected."""

from collections import Counter
from pathlib import Path

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError
from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.connection_failures import LASTING_S
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.sasl import FakeSasl, password_login
from tests.support.harness.world import World, world

LOGIN = [ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]


def brokers(nodes: int = 1, **sasl: object) -> FakeCluster:
    cluster = FakeCluster(nodes, topics={"t": 2})
    cluster.sasl = FakeSasl(**sasl)  # type: ignore[arg-type]
    return cluster


def logins_at(cluster: FakeCluster) -> int:
    assert cluster.sasl is not None
    return len(cluster.sasl.logins)


def change_password(cluster: FakeCluster) -> None:
    assert cluster.sasl is not None
    cluster.sasl.password = "another"


def first_broker(sim: World) -> BrokerConnection:
    return next(broker for broker in sim.client.network.brokers() if broker.node.node_id == 1)


def failure(sim: World, tick: float = 0.005) -> KafkaProdError:
    """Return the error of the session."""
    state = sim.buffer.state
    sim.run(lambda: state.error is not None, tick)
    assert isinstance(state.error, KafkaProdError)
    return state.error


def test_no_requests_before_the_login() -> None:
    cluster = brokers(nodes=2)
    with world(cluster, security=password_login()) as sim:
        for partition in (0, 1):
            sim.send_batches(5, partition)
        sim.finish()
        sim.check_accounting()
        assert sim.report().persisted == 30
        for node in (1, 2):
            apis = [api for number, api in cluster.requests if number == node]
            assert apis[:3] == LOGIN
            assert apis.count(ApiKey.SASL_AUTHENTICATE) <= 2  # the bootstrap server is broker 1
        assert not sim.client.network.failures.reasons


def test_wrong_password_is_fatal_immediately() -> None:
    cluster = brokers()
    with world(cluster, security=password_login("wrong"), load_metadata=False) as sim:
        sim.send_batches(2, partition=None)
        began = sim.clock.monotonic()
        error = failure(sim)
        assert sim.clock.monotonic() - began < 0.5
        assert isinstance(error, AuthenticationError)
        assert "PLAIN: Authentication failed: Invalid username or password" in str(error)
        assert "broker=127.0.0.1:40000, error=SASL_AUTHENTICATION_FAILED" in str(error)
        assert "kafka.sasl.password" in str(error)
        assert "Records: not persisted 6" in str(error)
        assert cluster.sasl is not None
        assert cluster.sasl.logins == [(1, False)]
        with pytest.raises(AuthenticationError):
            sim.send_batches(1)
        with pytest.raises(AuthenticationError):
            sim.session.flush()
        assert sim.statuses() == {DeliveryStatus.NOT_PERSISTED: 6}
        sim.check_memory_accounting()


def test_unsupported_mechanism() -> None:
    cluster = brokers(mechanisms=("SCRAM-SHA-512", "GSSAPI"))
    with world(cluster, security=password_login(), load_metadata=False) as sim:
        assert "it offers GSSAPI, SCRAM-SHA-512" in str(failure(sim))


def test_one_rejecting_bootstrap_server_does_not_stop_a_job() -> None:
    cluster = brokers(nodes=2, rejecting={1})
    cluster.move("t", 0, 2)
    servers = "127.0.0.1:40001,127.0.0.1:40002"
    with world(cluster, security=password_login(), bootstrap_servers=servers) as sim:
        sim.deliver_batches(5)
        assert sim.report().persisted == 15


def test_client_without_sasl_at_a_sasl_listener() -> None:
    cluster = brokers()
    with world(cluster, load_metadata=False) as sim:
        began = sim.clock.monotonic()
        error = failure(sim)
        assert LASTING_S <= sim.clock.monotonic() - began < 2 * LASTING_S
        assert isinstance(error, AuthenticationError)
        assert "kafka.security.protocol=SASL_PLAINTEXT" in str(error)


def test_sasl_at_a_listener_without_it() -> None:
    with world(FakeCluster(topics={"t": 1}), security=password_login(), load_metadata=False) as sim:
        error = failure(sim)
        assert isinstance(error, AuthenticationError)
        assert "error=ILLEGAL_SASL_STATE" in str(error)
        assert "kafka.security.protocol" in str(error)


# Session expiry (KIP-368).


def test_reauthentication_under_load_does_not_affect_batches() -> None:
    cluster = brokers(lifetime_ms=1_000)
    with world(cluster, security=password_login(), max_in_flight_requests_per_connection=5) as sim:
        dialled = len(cluster.connected_ports)
        for _ in range(200):
            sim.send_batches(2)
            sim.steps(2, tick=0.02)
        sim.finish()
        sim.check_accounting()
        report = sim.report()
        assert report.persisted == cluster.logs["t", 0].end == 1_200
        assert (report.retries, dict(report.errors)) == (0, {})
        assert logins_at(cluster) >= 8
        assert len(cluster.connected_ports) <= dialled + 1  # to the leader, and never again
        # Nothing is sent between a handshake and its login.
        apis = [api for _, api in cluster.requests]
        begun = [at for at, api in enumerate(apis) if api is ApiKey.SASL_HANDSHAKE]
        assert Counter(apis[at + 1] for at in begun) == {ApiKey.SASL_AUTHENTICATE: len(begun)}


def test_requests_in_flight_complete_before_the_login() -> None:
    cluster = brokers(lifetime_ms=1_000)
    with world(cluster, security=password_login()) as sim:
        sim.deliver_batches(1)
        logins = logins_at(cluster)
        sim.fault(Fault(hold=True))
        sim.send_batches(1)
        sim.steps(3)
        sim.clock.advance(0.96)
        sim.send_batches(3)  # waits for the login, which waits for the response
        sim.steps(10)
        assert len(cluster.seen) == 2
        assert logins_at(cluster) == logins
        cluster.release()
        sim.finish()
        assert logins_at(cluster) > logins
        assert cluster.logs["t", 0].end == 15
        assert sim.report().retries == 0


def test_requests_without_response_are_sent_before_the_login() -> None:
    """acks=0: no response wakes the connection after the last byte is written."""
    cluster = brokers(lifetime_ms=1_000)
    with world(cluster, security=password_login(), acks=0, enable_idempotence=False) as sim:
        sim.deliver_batches(1)
        logins = logins_at(cluster)
        cluster.writable_bytes[1] = 10
        sim.send_batches(1)
        sim.steps(3)
        sim.clock.advance(0.96)
        sim.send_batches(1)
        sim.steps(10)
        broker = first_broker(sim)
        assert broker.state is ChannelState.DRAINING
        assert broker.attempts.deadline > sim.clock.monotonic()
        assert logins_at(cluster) == logins
        del cluster.writable_bytes[1]
        sim.finish()
        assert logins_at(cluster) > logins
        assert cluster.logs["t", 0].end == 9


def test_reauthentication_that_never_starts_times_out() -> None:
    cluster = brokers(lifetime_ms=1_000)
    with world(
        cluster,
        security=password_login(),
        request_timeout_ms=2_000,
        socket_connection_setup_timeout_ms=1_000,
    ) as sim:
        sim.deliver_batches(1)
        broker = first_broker(sim)
        sim.clock.advance(0.96)
        broker.protocol.send_queue.append(memoryview(b""))  # bytes that are never written
        sim.send_batches(1)
        sim.steps(10, tick=0.1)
        assert broker.state is ChannelState.DRAINING
        sim.finish(tick=0.1)
        assert cluster.logs["t", 0].end == sim.report().persisted == 6


def test_idle_connection_is_not_reauthenticated() -> None:
    cluster = brokers(lifetime_ms=1_000)
    with world(cluster, security=password_login(), metadata_max_age_ms=600_000) as sim:
        sim.deliver_batches(1)
        logins = logins_at(cluster)
        sim.steps(50, tick=0.5)
        assert logins_at(cluster) == logins
        sim.deliver_batches(1)
        assert logins_at(cluster) > logins
        assert sim.report().retries == 0


def test_password_changed_during_a_job_fails_it_within_seconds() -> None:
    cluster = brokers(lifetime_ms=1_000)
    with world(cluster, security=password_login()) as sim:
        sim.deliver_batches(1)
        change_password(cluster)
        sim.clock.advance(0.96)
        sim.send_batches(2)
        began = sim.clock.monotonic()
        error = failure(sim, tick=0.02)
        assert LASTING_S <= sim.clock.monotonic() - began < LASTING_S + 3
        assert isinstance(error, AuthenticationError)
        assert sim.statuses() == {DeliveryStatus.PERSISTED: 3, DeliveryStatus.NOT_PERSISTED: 6}
        sim.check_accounting()


def test_new_password_in_a_file_is_used_during_a_job(tmp_path: Path) -> None:
    cluster, secret = brokers(lifetime_ms=1_000), tmp_path / "password"
    secret.write_text("open sesame\n")
    with world(cluster, security=password_login(f"file:{secret}")) as sim:
        sim.deliver_batches(1)
        change_password(cluster)
        sim.clock.advance(0.96)
        sim.send_batches(2)
        sim.steps(100, tick=0.02)
        assert cluster.logs["t", 0].end == 3
        secret.write_text("another\n")
        sim.finish(tick=0.02)
        assert cluster.logs["t", 0].end == sim.report().persisted == 9
        sim.check_accounting()


def test_request_lost_during_a_login_is_sent_again() -> None:
    cluster = brokers(lifetime_ms=1_000)
    with world(cluster, security=password_login()) as sim:
        sim.deliver_batches(1)
        sim.fault(Fault(append=True, lose=True))
        sim.send_batches(1)
        sim.clock.advance(0.96)
        sim.deliver_batches(1)
        assert cluster.logs["t", 0].end == sim.report().persisted == 9


def test_zero_session_lifetime_does_not_stop_the_client() -> None:
    with world(brokers(lifetime_ms=1), security=password_login()) as sim:
        sim.deliver_batches(20)
        assert sim.report().persisted == 60


# Slow steps.


def test_hanging_step_ends_at_the_connection_setup_timeout() -> None:
    cluster = brokers()
    with world(
        cluster,
        security=password_login(),
        load_metadata=False,
        socket_connection_setup_timeout_ms=2_000,
    ) as sim:
        sim.logins.holding = True
        sim.steps(30, tick=0.1)
        (reason,) = sim.client.network.failures.reasons.values()
        assert "getting a token or ticket" in reason
        sim.logins.holding = False
        sim.load_metadata()
        sim.deliver_batches(1)
        assert sim.report().persisted == 3


def test_loop_continues_during_a_slow_step() -> None:
    cluster = brokers(nodes=2)
    with world(cluster, security=password_login()) as sim:
        sim.deliver_batches(1, partition=0)
        sim.logins.holding = True
        sim.send_batches(1, partition=1)
        sim.steps(10)
        sim.send_batches(1, partition=0)
        sim.run(lambda: cluster.logs["t", 0].end == 6)
        assert cluster.logs["t", 1].end == 0
        sim.logins.holding = False
        sim.finish()
        assert cluster.logs["t", 1].end == 3


def test_missing_secret_is_fatal(tmp_path: Path) -> None:
    with world(
        brokers(), security=password_login(f"file:{tmp_path}/gone"), load_metadata=False
    ) as sim:
        error = failure(sim)
        assert "which cannot be read" in str(error)
        assert "open sesame" not in str(error)


def test_library_error_is_named_and_not_quoted() -> None:
    with world(brokers(), security=password_login(), load_metadata=False) as sim:
        sim.logins.error = ZeroDivisionError("open sesame")
        error = failure(sim)
        assert isinstance(error, AuthenticationError)
        assert "an unexpected ZeroDivisionError" in str(error)
        assert "open sesame" not in str(error)
