"""URLs of Redis, and the detection of other brokers in the output of CLIENT LIST."""

import re
import sys

import pytest

from spark_kafka_sink import BrokerUnavailableError, EmbeddedBroker
from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.broker.redis.connection import ClaimError
from spark_kafka_sink.broker.redis.entries import EntryIds
from spark_kafka_sink.broker.redis.location import RedisLocation
from spark_kafka_sink.broker.redis.owned_connection import _check_alone
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import install_command

LOCATION = RedisLocation.parse("redis://localhost")
OWN_ID = 9
NAME = "kafkaprod-broker:korvet:0a"
REDIS_7_0 = "resp=2"
REDIS_7_2 = "resp=2 lib-name=redis-py(a=b) lib-ver=5.0.1"
VALKEY_8 = "resp=2 lib-name= lib-ver= tot-net-in=26 tot-net-out=0 tot-cmds=0"


def client(client_id: int, name: str, tail: str) -> str:
    head = f"id={client_id} addr=127.0.0.1:5{client_id} laddr=127.0.0.1:6379 fd=8 name={name}"
    return f"{head} age=1 idle=0 flags=N db=0 sub=0 cmd=client|list user=default redir=-1 {tail}\n"


@pytest.mark.parametrize("tail", [REDIS_7_0, REDIS_7_2, VALKEY_8])
class TestClientsList:
    @pytest.mark.parametrize(
        ("client_id", "owner"), [(3, None), (OWN_ID + 1, b'"kafkaprod-broker:korvet:0b"')]
    )
    def test_another_broker_is_detected(
        self, tail: str, client_id: int, owner: bytes | None
    ) -> None:
        clients = client(OWN_ID, NAME, tail)
        clients += client(client_id, "kafkaprod-broker:korvet:0b", tail)
        with pytest.raises(ClaimError, match=rf"connected from 127\.0\.0\.1:5{client_id}"):
            _check_alone(LOCATION, NAME, OWN_ID, clients, owner)

    def test_younger_broker(self, tail: str) -> None:
        clients = client(OWN_ID, NAME, tail) + client(10, "kafkaprod-broker:korvet:0b", tail)
        assert _check_alone(LOCATION, NAME, OWN_ID, clients, b"not JSON") == []

    def test_former_connections(self, tail: str) -> None:
        others = client(3, NAME, tail) + client(4, "", tail) + client(5, "other", tail)
        clients = others + client(OWN_ID, NAME, tail)
        assert _check_alone(LOCATION, NAME, OWN_ID, clients, None) == ["3"]


def test_url_is_parsed() -> None:
    url = "redis://u:secret@h:1/3?prefix=p&sequence_bits=12&replicas=2&timeout_ms=7&db=4"
    place = RedisLocation.parse(url)
    assert (place.prefix, place.ids, place.replicas, place.timeout_ms) == ("p", EntryIds(12), 2, 7)
    assert place.url == "redis://u:secret@h:1/3?db=4"
    assert place.address == "redis://h:1/3"
    assert place.stream("orders", 0) == "p:orders:0"
    assert "secret" not in repr(place)
    assert "secret" not in repr(BrokerConfig(storage=url))


@pytest.mark.parametrize("url", ["unix:///run/redis.sock", "rediss://h", "redis://h/1?ssl=a%26b"])
def test_url_is_passed_to_redis(url: str) -> None:
    assert RedisLocation.parse(url).url == url


def test_url_without_path_has_defaults() -> None:
    place = RedisLocation.parse("redis://h")
    assert (place.prefix, place.ids.sequence_bits, place.replicas) == ("korvet", 10, 0)


@pytest.mark.parametrize(
    "url",
    [
        "memory",
        "http://h",
        "redis://h?replicas=many",
        "redis://h?sequence_bits=40",
        "redis://u:secret@[h]",
    ],
)
def test_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RedisLocation.parse(url)
    assert "secret" not in str(caught.value)


def test_url_that_redis_py_rejects() -> None:
    with pytest.raises(ConfigError, match="redis://h") as caught:
        EmbeddedBroker(storage="redis://:secret@h:port").start()
    assert "secret" not in str(caught.value)


def test_data_dir_and_redis_are_mutually_exclusive() -> None:
    with pytest.raises(ConfigError, match="data_dir"):
        BrokerConfig(storage="redis://h", data_dir="x")


def test_without_redis_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("redis"))):
        EmbeddedBroker(storage="redis://127.0.0.1").start()


def test_invalid_host_name_is_an_error() -> None:
    with pytest.raises(BrokerUnavailableError, match=r"redis://a\.\.b cannot be used"):
        EmbeddedBroker(storage="redis://a..b").start()
