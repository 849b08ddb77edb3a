"""Errors of denied operations name the missing ACL with a command, and are raised immediately."""

from dataclasses import replace

import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    Mechanism,
    MskIamLogin,
    PasswordLogin,
    SaslConfig,
    SecurityConfig,
    SecurityProtocol,
)
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.acl_advisor import AclAdvisor
from spark_kafka_sink.producer.producer_id import ProducerIdState
from spark_kafka_sink.producer.rows import Rows
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.offline import ManualClient, config
from tests.support.harness.world import World, world
from tests.unit.producer.rejections import tolerant

SERVER = "127.0.0.1:40000"
TOPIC = ErrorCode.topic_authorization_failed
CLUSTER = ErrorCode.cluster_authorization_failed
TRANSACTIONAL_ID = ErrorCode.transactional_id_authorization_failed


def command(operation: str, resource: str, principal: str = "User:ANONYMOUS") -> str:
    return (
        f"kafka-acls --bootstrap-server {SERVER} --command-config admin.properties --add "
        f"--allow-principal {principal} --operation {operation} {resource}"
    )


def rows(*topics: str) -> Rows:
    """Create a row per topic, with the row number as its value."""
    names = tuple(dict.fromkeys(topics))
    return Rows(
        columns=Columns(value=pa.array([b"%d" % row for row in range(len(topics))], pa.binary())),
        topics=names,
        topic_indexes=pa.array([names.index(topic) for topic in topics], pa.int32()).to_numpy(),
        partition=pa.array([0] * len(topics), pa.int32()),
    )


def reasons(sim: World) -> list[str]:
    """Return the error reasons in the dead letters."""
    name = "__connect.errors.exception.message"
    letters = sim.cluster.logs["dead", 0].records()
    return [(dict(letter.headers)[name] or b"").decode() for letter in letters]


def error_of_write(sim: World) -> AuthorizationError:
    with pytest.raises(AuthorizationError) as caught:
        sim.finish()
    return caught.value


# Metadata.


@pytest.mark.parametrize("may_create", ["true", "false"])
def test_topic_without_describe_permission(may_create: str) -> None:
    with world(FakeCluster(), allow_auto_create_topics=may_create) as sim:
        sim.cluster.metadata_errors["t"] = TOPIC
        began = sim.clock.monotonic()
        with pytest.raises(AuthorizationError) as caught:
            sim.append_while_stepping(rows("t"))
        assert sim.clock.monotonic() - began < 10  # max.block.ms is 60 s
        error = caught.value
        assert (error.topic, error.kafka_error) == ("t", "TOPIC_AUTHORIZATION_FAILED")
        assert "Describe on topic t is denied to User:ANONYMOUS" in str(error)
        assert "Grant Write on topic t to User:ANONYMOUS" in str(error)
        assert command("Write", "--topic t") in str(error)


def test_topic_without_create_permission() -> None:
    with world(FakeCluster(topics={"u": 1})) as sim:
        sim.cluster.uncreatable.add("t")
        began = sim.clock.monotonic()
        with pytest.raises(AuthorizationError) as caught:
            sim.append_while_stepping(rows("u", "t"))
        assert sim.clock.monotonic() - began < 10  # max.block.ms is 60 s
        assert "is not authorized to create it" in str(caught.value)
        assert command("Create", "--topic t") in str(caught.value)
        assert "Write" not in str(caught.value)


def test_permission_granted_while_the_client_waits_is_used() -> None:
    with world(FakeCluster(), tolerant(None)) as sim:
        sim.cluster.uncreatable.add("t")
        sim.append_while_stepping(rows("t"))
        sim.cluster.uncreatable.clear()
        sim.cluster.create("t", 1)
        sim.run(lambda: "t" in sim.client.metadata.cluster.topics, 0.05)
        assert sim.client.metadata.denials.uncreatable == frozenset()
        sim.append_while_stepping(rows("t"))
        sim.finish()
        assert sim.cluster.logs["t", 0].values() == [b"0"]


def test_topics_are_created_if_permitted() -> None:
    with world(FakeCluster()) as sim:
        sim.cluster.creates_topics = True
        sim.cluster.metadata_errors["hidden"] = TOPIC
        with pytest.raises(AuthorizationError) as caught:
            sim.append_while_stepping(rows("new", "hidden"))
        assert caught.value.topic == "hidden"
        assert "new" in sim.cluster.ids


# Produce and InitProducerId.


def test_topic_without_write_permission(sim: World) -> None:
    sim.fault(Fault(error=TOPIC))
    sim.send([b"a"])
    error = error_of_write(sim)
    assert "Write on topic t is denied to User:ANONYMOUS" in str(error)
    assert command("Write", "--topic t") in str(error)
    assert [status.status for status in error.statuses] == [DeliveryStatus.NOT_PERSISTED]


def refuse(sim: World, where: str, code: int) -> None:
    """Send a record that is rejected at InitProducerId or Produce."""
    if where == "init":
        sim.session.identity.state = ProducerIdState.MISSING
        sim.cluster.init_errors.append(code)
    else:
        sim.fault(Fault(error=code))
    sim.send([b"a"])


@pytest.mark.parametrize("where", ["init", "produce"])
def test_producer_without_idempotent_write_permission(sim: World, where: str) -> None:
    refuse(sim, where, CLUSTER)
    error = error_of_write(sim)
    assert error.kafka_error == "CLUSTER_AUTHORIZATION_FAILED"
    assert "IdempotentWrite on the cluster" in error.message
    assert "is denied to User:ANONYMOUS" in error.message
    assert command("Write", "--topic t") in str(error)
    assert command("IdempotentWrite", "--cluster") in str(error)
    assert "kafka.enable.idempotence=false" in str(error)
    assert str(error).index("Grant Write on topic t") < str(error).index("grant Idempotent")


@pytest.mark.parametrize("where", ["init", "produce"])
def test_transactional_id_without_permission(sim: World, where: str) -> None:
    refuse(sim, where, TRANSACTIONAL_ID)
    error = error_of_write(sim)
    assert "Write on transactional id <transactional.id> is denied" in error.message
    assert command("Write", "--transactional-id '<transactional.id>'") in str(error)


def test_error_identifies_the_dead_letter_topic() -> None:
    with world(FakeCluster(topics={"t": 1, "dead": 1}), tolerant()) as sim:
        sim.fault(Fault(error=ErrorCode.invalid_record), Fault(error=TOPIC))
        sim.send([b"bad"])
        error = error_of_write(sim)
        assert error.topic == "dead"
        assert "Grant Write on the dead letter topic dead to User:ANONYMOUS" in str(error)


def test_error_identifies_a_hidden_dead_letter_topic() -> None:
    with world(FakeCluster(topics={"t": 1}), tolerant()) as sim:
        sim.cluster.metadata_errors |= {"dead": TOPIC, "gone": ErrorCode.invalid_topic_exception}
        with pytest.raises(AuthorizationError) as caught:
            sim.append_while_stepping(rows("t", "gone"))
        assert "Describe on the dead letter topic dead is denied" in str(caught.value)


# Permissions that are revoked while batches wait.


def test_waiting_batches_fail_if_the_topic_is_denied(sim: World) -> None:
    sim.deliver([b"first"])
    sim.fault(*[Fault(error=ErrorCode.not_leader_or_follower)] * 20)
    sim.send_batches(3)
    sim.steps(3)
    sim.cluster.metadata_errors["t"] = TOPIC
    began = sim.clock.monotonic()
    error = error_of_write(sim)
    assert "Describe on topic t is denied" in str(error)
    assert sim.clock.monotonic() - began < 10
    sim.check_accounting()


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_waiting_batches_become_dead_letters_if_tolerated(codec: str) -> None:
    cluster = FakeCluster(topics={"t": 2, "u": 1, "dead": 1})
    with world(cluster, tolerant(), compression_type=codec) as sim:
        sim.deliver([b"first"])
        # None of these batches can be in the log.
        sim.fault(*[Fault(error=ErrorCode.not_enough_replicas)] * 5)
        sent = sim.send_batches(3) + sim.send_batches(2, None)
        sim.steps(2)
        sim.cluster.metadata_errors["t"] = TOPIC
        sim.client.metadata.request_refresh()
        sim.run(lambda: "t" not in sim.client.metadata.cluster.topics)
        sim.steps(20, 0.1)
        sim.cluster.faults.clear()
        sim.send([b"other"], 0, "u")
        sim.finish(0.1)
        assert sim.cluster.logs["u", 0].values() == [b"other"]
        letters = sim.cluster.logs["dead", 0].values()
        assert len(letters) + cluster.logs["t", 0].end + cluster.logs["t", 1].end == len(sent) + 1
        assert letters
        assert {command("Write", "--topic t") in reason for reason in reasons(sim)} == {True}
        sim.check_memory_accounting()


# With errors.tolerance=all.


def test_dead_letters_of_denied_topics_name_their_topic() -> None:
    with world(FakeCluster(topics={"u": 1, "dead": 1}), tolerant()) as sim:
        sim.cluster.metadata_errors["hidden"] = TOPIC
        sim.cluster.uncreatable.add("absent")
        sim.append_while_stepping(rows("hidden", "u", "absent", "hidden"))
        sim.finish()
        messages = reasons(sim)
        assert len(messages) == 3
        assert all("(TOPIC_AUTHORIZATION_FAILED): " in reason for reason in messages)
        assert [command("Write", "--topic hidden") in reason for reason in messages] == [1, 0, 1]
        assert [command("Create", "--topic absent") in reason for reason in messages] == [0, 1, 0]
        (count,) = sim.report().poison
        assert (count.reason, count.dead_lettered) == ("TOPIC_UNAUTHORIZED", 3)
        assert all("kafka-acls" in example for example in count.examples)


def test_rejected_batch_has_the_same_reason(caplog: pytest.LogCaptureFixture) -> None:
    with world(FakeCluster(topics={"t": 1, "dead": 1}), tolerant()) as sim:
        sim.fault(Fault(error=TOPIC, extra={"error_message": "denied by policy"}))
        sim.deliver([b"a", b"b"])
        right = "Grant Write on topic t to User:ANONYMOUS"
        expected = f"denied by policy; {right}: {command('Write', '--topic t')}"
        assert all(reason.endswith(expected) for reason in reasons(sim))
        (count,) = sim.report().poison
        assert count.examples[0] == f"t-0: {expected}"
        assert expected in caplog.text


# Principal and login type.


def advisor(login: SaslConfig) -> AclAdvisor:
    security = SecurityConfig(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=login)
    producer = replace(config(bootstrap_servers=SERVER), security=security)
    with world() as sim:
        return AclAdvisor(ManualClient(producer, sim.clock), None)


def test_command_is_quoted_for_a_shell() -> None:
    login = PasswordLogin(
        username=Secret("al ice$(id)", "kafka.sasl.username"),
        password=Secret("s3nt1nel", "kafka.sasl.password"),
    )
    hint = advisor(SaslConfig(mechanism=Mechanism.PLAIN, login=login)).hint(TOPIC, "t")
    assert command("Write", "--topic t", "'User:al ice$(id)'") in hint
    assert "s3nt1nel" not in hint


def test_msk_permissions_are_iam_actions() -> None:
    advice = advisor(SaslConfig(mechanism=Mechanism.AWS_MSK_IAM, login=MskIamLogin()))
    assert advice.hint(TOPIC, "t") == (
        "Allow kafka-cluster:DescribeTopic and kafka-cluster:WriteData on topic t in the IAM "
        "policy of this identity"
    )
    assert "kafka-cluster:WriteDataIdempotently on the cluster" in advice.hint(CLUSTER, "t")
    assert "kafka-acls" not in advice.hint(CLUSTER, "t")
