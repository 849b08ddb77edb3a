"""The detection of other brokers in the output of CLIENT LIST."""

import pytest

from spark_kafka_sink.broker.redis.redis_connection import ClaimError, RedisLocation, _check_alone

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
    def test_another_broker(self, tail: str, client_id: int, owner: bytes | None) -> None:
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
