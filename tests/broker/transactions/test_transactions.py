"""Scenarios of transactions.txt give equal responses on a real Kafka and the embedded broker.

The responses in the file are from Kafka 4.3.1; `player` describes the steps.
"""

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tests.support.transactions.player import SCENARIOS, Player
from tools.support.kafka_cluster import AnyKafka
from tools.support.raw_client import RawClient, create

MARKERS = [
    (1, 1, "2000000008000000010c00000000000000"),
    (3, 2, "2000000008000000000c00000000000000"),
]


@pytest.fixture
def player(any_raw: RawClient, unique_topic: str) -> Player:
    create(any_raw, unique_topic, 2)
    return Player(any_raw, unique_topic)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_scenario_gives_kafkas_responses(player: Player, scenario: str) -> None:
    assert player.play(scenario) == scenario.splitlines()


@pytest.mark.parametrize("append_time", [False, True])
def test_markers_have_kafkas_bytes(
    any_raw: RawClient, unique_topic: str, append_time: bool
) -> None:
    kind = "LogAppendTime" if append_time else "CreateTime"
    create(any_raw, unique_topic, 2, message_timestamp_type=kind)
    player = Player(any_raw, unique_topic)
    player.play("init\nwrite 0\nend commit 0\nwrite 1\nend abort 1")
    data, markers = bytes(player.fetched(0, 0, committed=True).records), []
    while data:
        header = BatchHeader.parse(data)
        if header.is_control:
            assert (header.is_transactional, header.base_sequence) == (True, -1)
            assert header.base_timestamp <= header.max_timestamp
            assert append_time or header.base_timestamp == header.max_timestamp
            assert header.is_log_append_time is append_time
            record = data[61 : header.size].hex()
            markers.append((header.base_offset, header.producer_epoch, record))
        data = data[header.size :]
    assert markers == MARKERS


def features(client: RawClient, version: int) -> tuple[tuple[int, int] | None, int | None]:
    response = client.call(
        ApiKey.API_VERSIONS, version, client_software_name="a", client_software_version="1"
    )
    name = "transaction.version"
    supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    finalized = {f.name: f.max_version_level for f in response.finalized_features}
    assert response.finalized_features_epoch >= 0
    return supported.get(name), finalized.get(name)


def test_transaction_version_is_a_finalized_feature(any_raw: RawClient) -> None:
    assert features(any_raw, 4) == ((0, 2), 2)
    assert features(any_raw, 3) == (None, 2)


def test_coordinator_is_found_as_by_kafka(any_kafka: AnyKafka, any_raw: RawClient) -> None:
    for version in range(1, 7):
        requested = {"key": "x", "key_type": 1, "coordinator_keys": ["x"]}
        response = any_raw.call(ApiKey.FIND_COORDINATOR, version, **requested)
        coordinator = response.coordinators[0] if version >= 4 else response
        if coordinator.error_code == 0:
            assert f"{coordinator.host}:{coordinator.port}" in any_kafka.bootstrap_servers
        else:  # Kafka first creates the topic for transactions.
            assert coordinator.error_code == ErrorCode.coordinator_not_available


def test_other_nodes_reject_requests_for_the_coordinator() -> None:

    with EmbeddedBroker(topics={"t": 2}, nodes=3) as kafka:
        addresses = kafka.bootstrap_servers.split(",")
        codes = []
        for address in addresses:
            with RawClient(address) as client:
                player = Player(client, "t")
                responses = [
                    player.step("add 0:0"),
                    player.step("add 0:0 v=4"),
                    player.step("addoffsets 0:0"),
                    player.step("state"),
                ]
                codes.append(responses)
    assert sorted(codes) == [["16"] * 4, ["16"] * 4, ["49", "49", "49", "105"]]
