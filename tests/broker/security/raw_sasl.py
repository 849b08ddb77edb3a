"""SASL with individual raw requests."""

from typing import Any

from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.support.raw_client import RawClient


def plain(user: str, password: str) -> bytes:
    return f"\0{user}\0{password}".encode()


def handshake(client: RawClient, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return client.call(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


def authenticate(client: RawClient, message: bytes, version: int = 2) -> Any:
    return client.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=message)


def log_in(client: RawClient, user: str = "alice", password: str = "secret") -> Any:
    handshake(client)
    return authenticate(client, plain(user, password))
