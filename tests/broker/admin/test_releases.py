"""The broker with the API versions of older releases: errors, and compatibility of clients."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.config.kafka_releases import releases
from spark_kafka_sink.broker.handlers.served_apis import HANDLERS
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    VersionRange,
    negotiate,
)
from tests.support.producer_writes import produce, rows
from tools.compat.clients.checks import ClientRow, Task
from tools.compat.clients.python_clients import AIOKAFKA, CONFLUENT, KAFKA_PYTHON
from tools.support.jars import OLD_KAFKA
from tools.support.java import command
from tools.support.kafka_cluster import KafkaCluster, ZooKeeperCluster
from tools.support.raw_client import RawClient
from tools.support.readers import by_confluent

RELEASES = tuple(releases())
SOFTWARE = {"client_software_name": "raw", "client_software_version": "1.0"}
THREE: dict[str, Any] = {"nodes": 3, "replication_factor": 3, "auto_create_topics": True}
TOO_NEW = (0, 18, 0, 99, 0, 0, 0, 5, 255, 255, 0)
"""ApiVersions request, version 99, with correlation ID 5 and no client ID."""


@pytest.fixture(params=RELEASES)
def old_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 2}, api_versions_of=request.param) as broker:
        yield broker


@pytest.fixture(scope="session")
def real(
    old_kafkas: Mapping[str, ZooKeeperCluster], real_kafka: KafkaCluster
) -> dict[str, ZooKeeperCluster | KafkaCluster]:
    """Return a real Kafka of a release."""
    old = {".".join(name.split(".")[:2]): kafka for name, kafka in old_kafkas.items()}
    return old | {"4.3": real_kafka}


def ranges(servers: str) -> dict[int, VersionRange]:
    with RawClient(servers) as raw:
        response = raw.call(ApiKey.API_VERSIONS, 0)
    return {
        key.api_key: VersionRange(key.min_version, key.max_version) for key in response.api_keys
    }


def frame_of(servers: str, request: Sequence[int]) -> bytes:
    with RawClient(servers) as raw:
        raw.socket.sendall(len(request).to_bytes(4, "big") + bytes(request))
        return raw.next_frame()


@pytest.mark.parametrize("release", ["2.1", "2.8", "3.9", "4.3"])
class TestComparedToKafka:
    def test_version_ranges(
        self, real: Mapping[str, ZooKeeperCluster | KafkaCluster], release: str
    ) -> None:
        advertised = ranges(real[release].bootstrap_servers)
        table = releases()[release]
        assert {api: advertised.get(api) for api in HANDLERS} == {
            api: table.get(ApiKey(api)) for api in HANDLERS
        }

    def test_version_of_a_newer_release_is_rejected(
        self, real: Mapping[str, ZooKeeperCluster | KafkaCluster], release: str
    ) -> None:
        with EmbeddedBroker(api_versions_of=release) as old_broker:
            ours = frame_of(old_broker.bootstrap_servers, TOO_NEW)
        assert ours == frame_of(real[release].bootstrap_servers, TOO_NEW)

    def test_transactions_v2(
        self, real: Mapping[str, ZooKeeperCluster | KafkaCluster], release: str
    ) -> None:
        version = min(3, releases()[release][ApiKey.API_VERSIONS].highest)
        with EmbeddedBroker(api_versions_of=release) as old_broker:
            reported = []
            for kafka in (old_broker, real[release]):
                with RawClient(kafka.bootstrap_servers) as raw:
                    response = raw.call(ApiKey.API_VERSIONS, version, **SOFTWARE)
                features = getattr(response, "finalized_features", ())
                reported.append([f for f in features if f.name == "transaction.version"])
        assert reported[0] == reported[1]
        assert bool(reported[0]) == (release == "4.3")


def test_advertised_versions(old_broker: EmbeddedBroker) -> None:
    table = releases()[old_broker.config.release or ""]
    advertised = ranges(old_broker.bootstrap_servers)
    assert len(advertised) > 25
    for api, span in advertised.items():
        served = HANDLERS[api].announced or HANDLERS[api].versions
        assert span == served.common(table[ApiKey(api)])
    missing = HANDLERS.keys() - advertised.keys()
    assert all(api not in table or api == ApiKey.WRITE_TXN_MARKERS for api in missing)


def test_only_advertised_versions_are_served(old_broker: EmbeddedBroker) -> None:
    """The broker closes the connection after any other request, as Kafka does."""
    advertised = ranges(old_broker.bootstrap_servers)
    for version in range(14):
        with RawClient(old_broker.bootstrap_servers) as raw:
            raw.send(ApiKey.METADATA, version, topics=[{"name": "t"}])
            if version in advertised[ApiKey.METADATA]:
                assert raw.receive(ApiKey.METADATA, version).topics[0].error_code == 0
            else:
                assert raw.closed()
    with RawClient(old_broker.bootstrap_servers) as raw:
        raw.send(ApiKey.DESCRIBE_CLUSTER, 0)
        assert raw.closed() == (ApiKey.DESCRIBE_CLUSTER not in advertised)


def test_producer_writes(old_broker: EmbeddedBroker) -> None:
    servers, values = old_broker.bootstrap_servers, [b"%d" % number for number in range(300)]
    produce(servers, rows("t", values, partitions=[1] * 300), compression_type="zstd")
    assert [record.value for record in by_confluent(servers, "t")] == values


def test_client_finds_a_version_of_every_api(old_broker: EmbeddedBroker) -> None:
    advertised = ranges(old_broker.bootstrap_servers)
    for api in (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE):
        assert negotiate(api, CLIENT_VERSIONS[api], advertised[api]) <= advertised[api].highest


@pytest.mark.parametrize("text", ["2.8", "2.8.2", "3.9.1"])
def test_release_with_patch_version(text: str) -> None:
    with EmbeddedBroker(api_versions_of=text) as old_broker:
        assert old_broker.config.release == text[:3]


@pytest.mark.parametrize("text", ["", "2", "1.0", "9.9", "newest"])
def test_unknown_release_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="Known releases: 2"):
        EmbeddedBroker(api_versions_of=text)


@pytest.mark.parametrize("release", ["2.1", "2.8", "3.6"])
@pytest.mark.parametrize("task", [Task.GROUPS, Task.TOPICS, Task.TRANSACTIONS])
def test_librdkafka(release: str, task: Any) -> None:
    with EmbeddedBroker(**THREE, api_versions_of=release) as kafka:
        CONFLUENT.checks[task](kafka.bootstrap_servers)


@pytest.mark.parametrize("release", ["2.1", "2.8"])
@pytest.mark.parametrize("client", [KAFKA_PYTHON, AIOKAFKA], ids=lambda client: client.name)
def test_python_clients(release: str, client: ClientRow) -> None:
    with EmbeddedBroker(**THREE, api_versions_of=release) as kafka:
        client.checks[Task.GROUPS](kafka.bootstrap_servers)


@pytest.mark.parametrize("release", ["2.1.1", "2.8.2"])
def test_java_clients_of_the_release(release: str) -> None:
    """Kafka's console producer and console consumer, with a group."""
    values = [f"value {number}" for number in range(50)]
    with EmbeddedBroker(topics={"t": 2}, api_versions_of=release) as kafka:
        servers = kafka.bootstrap_servers
        console(release, "Producer", "--broker-list", servers, text="\n".join(values))
        expected = ("--from-beginning", "--group", "g", "--max-messages", "50")
        printed = console(release, "Consumer", "--bootstrap-server", servers, *expected)
    assert sorted(printed.split("\n")[:-1]) == sorted(values)


def console(release: str, tool: str, *arguments: str, text: str = "") -> str:
    line = command(
        f"kafka.tools.Console{tool}", ["--topic", "t", *arguments], jars=OLD_KAFKA[release]
    )
    done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
