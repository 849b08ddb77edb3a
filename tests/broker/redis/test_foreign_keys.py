"""Keys that the broker did not write are never changed, and errors contain their names."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.cluster.topics import TopicSpec
from spark_kafka_sink.broker.redis.owned_connection import OwnedConnection
from spark_kafka_sink.broker.redis.replicas import WAITS_FIELD
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.broker.redis.killed_broker import kill_at, until_killed
from tests.broker.redis.reading import entries
from tests.broker.support.inspection import create_code, topic_in
from tests.support.redis_server import RedisServer
from tools.support.raw_client import RawClient, batch, produce


@pytest.fixture
def prefix(redis_server: RedisServer, unique_topic: str) -> Iterator[str]:
    yield unique_topic
    for key in redis_server.client.scan_iter(f"{unique_topic}*"):
        redis_server.client.delete(key)


def dumped(server: RedisServer, prefix: str) -> dict[bytes, Any]:
    """Return Redis dumps of all keys of the prefix except the journal."""
    keys = sorted(server.client.scan_iter(f"{prefix}:*"))
    return {key: server.client.dump(key) for key in keys if not key.endswith(b"::journal")}


def test_streams_of_another_writer_are_rejected(own_redis: RedisServer) -> None:
    """Korvet's keys under its default prefix, which is also the broker's default."""
    for partition in range(2):
        fields: dict[Any, Any] = {"key": "order-1", "value": '{"quantity":5}'}
        own_redis.client.xadd(f"korvet:orders:{partition}", fields)
    before = dumped(own_redis, "korvet")
    for topics in ({}, {"orders": 2}):
        with pytest.raises(ConfigError, match=r"korvet:orders:0 \(stream\)") as caught:
            EmbeddedBroker(storage=own_redis.url(), topics=topics).start()
        assert "another prefix" in str(caught.value)
        assert dumped(own_redis, "korvet") == before
        assert own_redis.client.dbsize() == 2


@pytest.mark.parametrize("command", ["client|list", "client|kill", "info"])
def test_user_without_permission_for_a_required_command_is_rejected(
    redis_server: RedisServer, prefix: str, command: str
) -> None:
    """Otherwise, two brokers could use one prefix, or a replaced primary could acknowledge."""
    user: dict[str, Any] = {"username": "u", "passwords": ["+secret"], "keys": "*"}
    redis_server.client.acl_setuser(**user, enabled=True, categories=["+@all"])
    url = redis_server.url(prefix=prefix, timeout_ms=500).replace("//", "//u:secret@")
    with EmbeddedBroker(storage=url):
        pass
    redis_server.client.acl_setuser(**user, enabled=True, commands=[f"-{command}"])
    shown = command.replace("|", " ").upper()
    with pytest.raises(ConfigError, match=f"rejects {shown}.*no permissions"):
        EmbeddedBroker(storage=url).start()


def test_journal_of_another_type_is_rejected(redis_server: RedisServer, prefix: str) -> None:
    redis_server.client.set(f"{prefix}::journal", "x")
    with pytest.raises(ConfigError, match=r"it is a string, not a hash.*another prefix"):
        EmbeddedBroker(storage=redis_server.url(prefix=prefix)).start()
    assert redis_server.client.get(f"{prefix}::journal") == b"x"


@pytest.mark.parametrize("has_data", [False, True])
def test_hash_with_only_the_counter_of_waits_is_not_a_journal(
    redis_server: RedisServer, prefix: str, has_data: bool
) -> None:
    """If the journal is deleted while a write waits for replicas, the counter creates the hash."""
    url = redis_server.url(prefix=prefix)
    with EmbeddedBroker(storage=url, topics={"t": 1}):
        pass
    redis_server.client.delete(f"{prefix}::journal")
    redis_server.client.hincrby(f"{prefix}::journal", WAITS_FIELD, 1)
    if has_data:
        redis_server.client.set(f"{prefix}:t:0", "x")
        before = dumped(redis_server, prefix)
        with pytest.raises(ConfigError) as caught:
            EmbeddedBroker(storage=url).start()
        assert "no journal" in str(caught.value)
        assert dumped(redis_server, prefix) == before
        return
    for key in dumped(redis_server, prefix):
        redis_server.client.delete(key)
    with EmbeddedBroker(storage=url, topics={"t": 1}) as kafka:
        assert kafka.end_offsets("t") == [0]


@pytest.mark.parametrize("key", ["t:0", ":batches:t:0", ":waits", "whatever"])
def test_prefix_without_journal_is_rejected(
    redis_server: RedisServer, prefix: str, key: str
) -> None:
    redis_server.client.set(f"{prefix}:{key}", "mine")
    with pytest.raises(ConfigError, match=f"{prefix}:{key}"):
        EmbeddedBroker(storage=redis_server.url(prefix), topics={"t": 1}).start()
    assert redis_server.client.get(f"{prefix}:{key}") == b"mine"


def test_keys_of_other_prefixes_are_ignored(redis_server: RedisServer, prefix: str) -> None:
    redis_server.client.set(f"{prefix}x:t:0", "mine")
    redis_server.client.set(f"{prefix}", "mine")
    with EmbeddedBroker(storage=redis_server.url(f"{prefix}%3F"), topics={"t": 1}):
        pass
    with EmbeddedBroker(storage=redis_server.url(prefix.upper()[:-1] + "*"), topics={"t": 1}):
        pass


@pytest.mark.parametrize("kind", ["string", "fields", "values"])
def test_invalid_journal_key_is_rejected(redis_server: RedisServer, prefix: str, kind: str) -> None:
    journal = f"{prefix}::journal"
    if kind == "string":
        redis_server.client.set(journal, "mine")
    else:
        field = "name" if kind == "fields" else '["topic", "t"]'
        redis_server.client.hset(journal, field, "mine")
    before = redis_server.client.dump(journal)
    with pytest.raises(ConfigError, match=journal):
        EmbeddedBroker(storage=redis_server.url(prefix)).start()
    assert redis_server.client.dump(journal) == before


@pytest.mark.parametrize("key", ["t:1", ":batches:t:1"])
@pytest.mark.parametrize("kind", ["stream", "string"])
def test_topic_is_not_created_if_its_stream_exists(
    redis_server: RedisServer, prefix: str, key: str, kind: str
) -> None:
    url, name = redis_server.url(prefix), f"{prefix}:{key}"
    with (
        EmbeddedBroker(storage=url, topics={"a": 1}) as kafka,
        RawClient(kafka.bootstrap_servers) as raw,
    ):
        if kind == "stream":
            redis_server.client.xadd(name, {"value": "mine"})
        else:
            redis_server.client.set(name, "mine")
        before = dumped(redis_server, prefix)
        code, message = create_code(raw, "t", 2)
        assert code is ErrorCode.kafka_storage_error
        assert f"{name} exists ({kind})" in message
        assert dumped(redis_server, prefix) == before
        assert create_code(raw, "t")[0] is ErrorCode.none
        with pytest.raises(Exception, match="exists"):
            kafka.run(lambda cluster: cluster.topics.add_partitions(topic_in(cluster), 2, {}))
        assert before.items() <= dumped(redis_server, prefix).items()
    with EmbeddedBroker(storage=url) as kafka:
        assert kafka.end_offsets("t") == [0]


def test_key_of_wrong_type_is_not_loaded_or_deleted(
    redis_server: RedisServer, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    url, name = redis_server.url(prefix), f"{prefix}:t:0"
    with EmbeddedBroker(storage=url, topics={"t": 1, "u": 1}) as kafka:
        for topic in ("t", "u"):
            redis_server.client.delete(f"{prefix}:{topic}:0")
            redis_server.client.set(f"{prefix}:{topic}:0", "mine")
        kafka.run(lambda cluster: cluster.topics.delete(topic_in(cluster, "u")))
    assert redis_server.client.get(f"{prefix}:u:0") == b"mine"
    assert f"not deleting {prefix}:u:0" in caplog.text
    with pytest.raises(ConfigError, match=name):
        EmbeddedBroker(storage=url).start()
    assert redis_server.client.get(name) == b"mine"
    redis_server.client.delete(name)
    with EmbeddedBroker(storage=url, topics={"t": 1}) as kafka:
        assert kafka.end_offsets("t") == [0]
    assert f"{name} is missing" in caplog.text


@pytest.mark.parametrize("action", ["create", "delete", "add"])
def test_recovery_after_crash_at_each_command(
    redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    for number in range(100):
        url = redis_server.url(f"{prefix}{number}")
        with (
            EmbeddedBroker(storage=url, topics={} if action == "create" else {"t": 2}) as kafka,
            RawClient(kafka.bootstrap_servers) as raw,
        ):
            if action != "create":
                produce(raw, "t", batch(3))
            with monkeypatch.context() as patch:
                left = kill_at(patch, number)
                kafka.run(lambda cluster: act(cluster, action))
                ended = left[0] < 0
        with EmbeddedBroker(storage=url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
            code, message = create_code(raw, "t", 3)
            assert code in {ErrorCode.none, ErrorCode.topic_already_exists}, message
            parts = len(kafka.end_offsets("t"))
            keys = {key.decode() for key in dumped(redis_server, f"{prefix}{number}")}
            expected = [f"{prefix}{number}{infix}:t" for infix in ("", "::batches")]
            assert keys == {f"{topic}:{index}" for topic in expected for index in range(parts)}
            if code is ErrorCode.topic_already_exists and action != "create":
                assert entries(redis_server, f"{prefix}{number}:t:0")
        if not ended:
            break
    assert 6 <= number < 99


@until_killed()
def act(cluster: Cluster, action: str) -> None:
    if action == "create":
        cluster.topics.create(TopicSpec(name="t", partitions=3))
    elif action == "delete":
        cluster.topics.delete(topic_in(cluster))
    else:
        cluster.topics.add_partitions(topic_in(cluster), 3, {})


def test_incomplete_creation_does_not_delete_foreign_records(
    redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = redis_server.url(prefix)
    with EmbeddedBroker(storage=url) as kafka, monkeypatch.context() as patch:
        left = kill_at(patch, 7)
        kafka.run(lambda cluster: act(cluster, "create"))
        assert left[0] < 0
    redis_server.client.xadd(f"{prefix}:t:0", {"value": "mine"})
    before = dumped(redis_server, prefix)[f"{prefix}:t:0".encode()]
    with EmbeddedBroker(storage=url) as kafka, RawClient(kafka.bootstrap_servers) as raw:
        assert f"{prefix}:t:0 exists" in create_code(raw, "t")[1]
    assert redis_server.client.dump(f"{prefix}:t:0") == before


def test_two_brokers_cannot_share_a_prefix(redis_server: RedisServer, prefix: str) -> None:
    """The lock is released when the broker's connection closes."""
    url = redis_server.url(prefix, timeout_ms=300)
    with (
        EmbeddedBroker(storage=url, topics={"t": 1}) as kafka,
        RawClient(kafka.bootstrap_servers) as raw,
    ):
        for _ in range(2):
            with pytest.raises(
                ConfigError,
                match=rf"another broker, connected from .*, uses.*{prefix}.*CLIENT KILL",
            ):
                EmbeddedBroker(storage=url).start()
        with EmbeddedBroker(storage=redis_server.url(f"{prefix}2")):
            assert produce(raw, "t", batch(1)).error_code is ErrorCode.none
        drop_connections(redis_server, prefix)
        with EmbeddedBroker(storage=url) as other:
            response = produce(raw, "t", batch(1))
            assert response.error_code is ErrorCode.kafka_storage_error
            assert produce(raw, "t", batch(1)).error_code is ErrorCode.kafka_storage_error
            with RawClient(other.bootstrap_servers) as client:
                assert produce(client, "t", batch(1)).error_code is ErrorCode.none
                assert create_code(client, "u")[0] is ErrorCode.none
            assert len(other.batches("t", 0)) == 2
        # The data cached by the first broker is outdated, even after the other one has stopped.
        assert produce(raw, "t", batch(1)).error_code is ErrorCode.kafka_storage_error
        assert create_code(raw, "u")[0] is ErrorCode.kafka_storage_error
    with EmbeddedBroker(storage=url) as kafka:
        assert len(kafka.batches("t", 0)) == 2
        assert kafka.end_offsets("u") == [0]


def test_broker_that_starts_during_the_check_of_another(
    redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection is younger, but it had its name first."""
    real, started = OwnedConnection._exchange, ExitStack()
    other = EmbeddedBroker(storage=redis_server.url(prefix), topics={"t": 1})

    def exchange(self: OwnedConnection, commands: Any) -> list[Any]:
        if any(words[:2] == ("CLIENT", "SETNAME") for words in commands):
            monkeypatch.setattr(OwnedConnection, "_exchange", real)
            started.enter_context(other)
        return real(self, commands)

    monkeypatch.setattr(OwnedConnection, "_exchange", exchange)
    with started:
        with pytest.raises(ConfigError, match="another broker"):
            EmbeddedBroker(storage=redis_server.url(prefix, timeout_ms=300)).start()
        with RawClient(other.bootstrap_servers) as raw:
            assert produce(raw, "t", batch(1)).error_code is ErrorCode.none


def test_journal_that_changes_before_the_broker_owns_it(
    redis_server: RedisServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = OwnedConnection.own

    def own(self: OwnedConnection, journal: str, *rest: Any) -> None:
        redis_server.client.hset(journal, '["leader epoch","t",0]', "7")
        real(self, journal, *rest)

    monkeypatch.setattr(OwnedConnection, "own", own)
    with EmbeddedBroker(storage=redis_server.url(prefix), topics={"t": 1}) as kafka:
        assert kafka.run(lambda cluster: cluster.journal.get("leader epoch", ("t", 0))) == 7


def drop_connections(server: RedisServer, prefix: str) -> None:
    for client in server.client.client_list():
        if f":{prefix}:" in client["name"]:
            server.client.client_kill_filter(_id=client["id"])
