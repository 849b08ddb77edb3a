"""The detection of other brokers in the output of CLIENT LIST."""

from __future__ import annotations

import pytest

from spark_kafka_sink.broker.redis.connection import OtherBrokerError, RedisLocation, _check_alone

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
    def test_another_broker(self, tail: str) -> None:
        clients = client(3, "kafkaprod-broker:korvet:0b", tail) + client(OWN_ID, NAME, tail)
        with pytest.raises(OtherBrokerError, match=r"connected from 127\.0\.0\.1:53"):
            _check_alone(RedisLocation.parse("redis://localhost"), NAME, OWN_ID, clients)

    def test_former_connections(self, tail: str) -> None:
        others = client(3, NAME, tail) + client(4, "", tail) + client(5, "other", tail)
        location = RedisLocation.parse("redis://localhost")
        assert _check_alone(location, NAME, OWN_ID, others + client(OWN_ID, NAME, tail)) == ["3"]
