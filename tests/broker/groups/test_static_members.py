"""Raw requests of static members to a real Kafka and to the embedded broker."""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, KafkaError

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.pace import pace
from tests.support.waiting import retry, wait_until
from tools.support.kafka_cluster import AnyKafka
from tools.support.raw_client import RawClient, batch, produce

NO_ERROR, OUT_OF_BOUNDS = ErrorCode.none, ErrorCode.invalid_session_timeout


class GroupMember:
    """A member with its own connection, so that multiple members can wait at the same time."""

    def __init__(
        self,
        kafka: AnyKafka,
        group: str,
        instance: str | None = None,
        session: float = 10.0,
    ) -> None:
        self.raw = RawClient(kafka.bootstrap_servers)
        self.group, self.instance, self.session = group, instance, session
        self.id, self.generation = "", -1
        self.answer: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.raw.socket.close()

    def values(self, **changes: Any) -> dict[str, Any]:
        own = {"group_id": self.group, "group_instance_id": self.instance, "member_id": self.id}
        return own | {"generation_id": self.generation} | changes

    def start_join(self) -> Self:
        values = self.values(
            session_timeout=timedelta(seconds=self.session),
            rebalance_timeout=timedelta(seconds=20),
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": (self.instance or "m").encode()}],
        )
        self.raw.send(ApiKey.JOIN_GROUP, 9, **values)
        return self

    def end_join(self) -> Any:
        self.answer = self.raw.receive(ApiKey.JOIN_GROUP, 9)
        self.id, self.generation = self.answer.member_id, self.answer.generation_id
        return self.answer

    def join(self) -> Any:
        retried = {ErrorCode.not_coordinator, ErrorCode.coordinator_not_available}
        retried |= {ErrorCode.coordinator_load_in_progress, ErrorCode.member_id_required}

        def call() -> Any:
            response = self.start_join().end_join()
            if response.error_code in retried - {ErrorCode.member_id_required}:
                self.id = ""
            return response

        return retry(call, lambda response: response.error_code, retried)

    def sync(self, **assignments: dict[str, bytes]) -> Any:
        assigned = [
            {"member_id": k, "assignment": v} for k, v in assignments.get("all", {}).items()
        ]
        named = {"protocol_type": "consumer", "protocol_name": "range", "assignments": assigned}
        return self.raw.call(ApiKey.SYNC_GROUP, 5, **self.values(**named))

    def heartbeat(self) -> ErrorCode:
        result: ErrorCode = self.raw.call(ApiKey.HEARTBEAT, 4, **self.values()).error_code
        return result

    def state(self) -> tuple[str, list[str | None]]:
        (group,) = self.raw.call(ApiKey.DESCRIBE_GROUPS, 5, groups=[self.group]).groups
        return group.group_state, [member.group_instance_id for member in group.members]


def wait_for_coordinator(kafka: AnyKafka) -> None:
    """Wait until the coordinator and its offsets topic are available."""
    with RawClient(kafka.bootstrap_servers) as raw:
        wait_until(
            lambda: not raw.call(ApiKey.FIND_COORDINATOR, 2, key="any", key_type=0).error_code
        )


@pytest.fixture
def static_members(
    any_kafka: AnyKafka, unique_topic: str
) -> Iterator[tuple[GroupMember, GroupMember]]:
    """Yield the leader `i` and the member `j`, both static, of a stable group."""
    wait_for_coordinator(any_kafka)
    with (
        GroupMember(any_kafka, unique_topic, "i") as leader,
        GroupMember(any_kafka, unique_topic, "j") as member,
    ):
        leader.join()
        member.start_join()
        wait_until(lambda: leader.heartbeat() is ErrorCode.rebalance_in_progress)
        leader.join()
        member.end_join()
        leader.sync(all={leader.id: b"of i", member.id: b"of j"})
        assert member.sync().assignment == b"of j"
        yield leader, member


def test_waiting_join_is_fenced(
    any_kafka: AnyKafka, static_members: tuple[GroupMember, GroupMember]
) -> None:
    """The waiting request of the replaced member fails, in either order."""
    group = static_members[0].group
    with GroupMember(any_kafka, group, "k") as newcomer, GroupMember(any_kafka, group, "j") as back:
        newcomer.start_join()
        wait_until(lambda: static_members[1].heartbeat() is ErrorCode.rebalance_in_progress)
        static_members[1].start_join()
        back.start_join()
        assert static_members[1].end_join().error_code is ErrorCode.fenced_instance_id
        static_members[0].join()
        assert back.end_join().error_code is NO_ERROR
        assert newcomer.end_join().generation_id == back.generation


@pytest.mark.parametrize("instance", [None, "i"])
def test_member_without_heartbeats_is_removed_after_its_session(
    any_kafka: AnyKafka, unique_topic: str, instance: str | None
) -> None:
    wait_for_coordinator(any_kafka)
    with GroupMember(any_kafka, unique_topic, instance, session=6.0) as member, pace() as machine:
        member.join()
        member.sync(all={member.id: b"all"})
        member.heartbeat()
        started = time.monotonic()
        assert member.state()[0] == "Stable"
        wait_until(lambda: member.state()[0] != "Stable")
        assert 5.9 < time.monotonic() - started < 6.4 + machine.slack_s
        assert member.heartbeat() is ErrorCode.unknown_member_id


def test_session_timeout_bounds_are_configurable(unique_topic: str) -> None:
    bounds: dict[str, Any] = {
        "group_min_session_timeout_ms": 300,
        "group_max_session_timeout_ms": 1_000,
    }
    with EmbeddedBroker(**bounds) as kafka, pace() as machine:
        for session, error in ((0.299, OUT_OF_BOUNDS), (1.001, OUT_OF_BOUNDS), (0.3, NO_ERROR)):
            with GroupMember(kafka, unique_topic, session=session) as member:
                assert member.join().error_code is error
                started = time.monotonic()
        with GroupMember(kafka, unique_topic) as witness:
            wait_until(lambda: witness.state()[0] == "Empty")
        assert 0.25 < time.monotonic() - started < 0.45 + machine.slack_s


def consume(kafka: AnyKafka, topic: str, **changes: Any) -> Any:
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": f"g-{topic}",
        "group.instance.id": "one",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 300,
    }
    consumer = Consumer(settings | changes)
    consumer.subscribe([topic])
    return consumer


def test_librdkafka_fences_the_older_member(
    any_kafka: AnyKafka, any_raw: RawClient, topic: str
) -> None:
    """Of two consumers with the same instance ID, the second gets the partition immediately."""
    produce(any_raw, topic, batch(1))
    first, second = consume(any_kafka, topic), None
    try:
        assert first.poll(60).error() is None
        second = consume(any_kafka, topic)
        assert second.poll(60).error() is None
        assert first_error(first) in {KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL}
    finally:
        for consumer in filter(None, (first, second)):
            consumer.close()


def first_error(consumer: Any) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error():
            return message.error().code()
    raise TimeoutError
