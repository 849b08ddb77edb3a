"""The command line; commands that run until a signal are started as subprocesses."""

import signal
import subprocess
import sys
from dataclasses import fields
from datetime import timedelta
from itertools import chain

import pytest
from confluent_kafka.admin import AdminClient

from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.cli.broker_command import BrokerArguments
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.support.command_line import run
from tests.broker.support.inspection import next_line
from tools.support.raw_client import RawClient

KAFKAPROD = [sys.executable, "-m", "spark_kafka_sink"]
OPTIONS = {
    "--topic": "a:2",
    "--topic-config": "a:retention.ms=60000",
    "--transaction-version": "1",
    "--transaction-max-timeout-ms": "5000",
    "--default-partitions": "3",
    "--cluster-id": "mine",
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_broker_runs_until_a_signal(number: int) -> None:
    command = [*KAFKAPROD, "broker", "--port", "0", "--topic", "a:3", "--topic", "b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            ready = next_line(process)
            assert ready.startswith("kafkaprod broker ready on 127.0.0.1:")
            address = ready.split()[-1]
            topics = AdminClient({"bootstrap.servers": address}).list_topics(timeout=60).topics
            assert {name: len(t.partitions) for name, t in topics.items()} == {"a": 3, "b": 1}
            process.send_signal(number)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_options_of_the_command_reach_the_broker() -> None:
    command = [*KAFKAPROD, "broker", "--port", "0", *chain.from_iterable(OPTIONS.items())]
    command.append("--auto-create-topics")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            with RawClient(next_line(process).split()[-1]) as raw:
                requested = {"transactional_id": "x", "transaction_timeout": timedelta(seconds=6)}
                rejected = raw.call(ApiKey.INIT_PRODUCER_ID, 4, **requested)
                assert rejected.error_code is ErrorCode.invalid_transaction_timeout
                response = raw.call(
                    ApiKey.API_VERSIONS, 3, client_software_name="a", client_software_version="1"
                )
                assert [f.max_version_level for f in response.finalized_features] == [1]
                metadata = raw.call(ApiKey.METADATA, 8, topics=[{"name": "made"}, {"name": "a"}])
                assert metadata.cluster_id == "mine"
                requested = {"resource_type": 2, "resource_name": "a", "configuration_keys": None}
                configs = (
                    raw.call(ApiKey.DESCRIBE_CONFIGS, 1, resources=[requested]).results[0].configs
                )
                assert "60000" in {c.value for c in configs if c.name == "retention.ms"}
                created = raw.call(ApiKey.METADATA, 8, topics=[{"name": "made"}])
                assert len(created.topics[0].partitions) == 3
        finally:
            process.kill()


def test_api_versions_are_those_of_the_older_release() -> None:
    command = [*KAFKAPROD, "broker", "--port", "0", "--api-versions-of", "2.8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            with RawClient(next_line(process).split()[-1]) as raw:
                response = raw.call(ApiKey.API_VERSIONS, 0).api_keys
                assert [k.max_version for k in response if k.api_key == ApiKey.METADATA] == [11]
        finally:
            process.kill()


def test_every_option_of_the_broker_is_on_the_command_line() -> None:
    assert BrokerArguments().options().keys() == {field.name for field in fields(BrokerConfig)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--topic", "a", "--topic-config", "a:no.such=1"], "Unknown topic config name: no.such"),
        (["--topic", "a", "--topic-config", "a:retention.ms=x"], "Invalid value x"),
        (["--topic", "a", "--topic-config", "b:retention.ms=1"], "missing from topics: b"),
        (["--topic", "a b"], "'a b' cannot be created"),
        (["--transaction-version", "5"], "It must be 0, 1 or 2"),
        (["--api-versions-of", "2.2"], "Known releases: 2.1, 2.4,"),
        (["--nodes", "2", "--replication-factor", "3"], "must be 1 to 2"),
        (["--topic", "a:many"], "Use name:partitions"),
        *(
            (["--topic-config", text], "Use topic:name=value")
            for text in ("a", "a:", "a:retention.ms", ":retention.ms=1")
        ),
    ],
)
def test_invalid_options_are_rejected_before_the_start(options: list[str], message: str) -> None:
    done = run("broker", "--port", "0", *options)
    assert done.returncode == 1
    assert message in done.stderr


def test_version_is_shown() -> None:
    shown = subprocess.run([*KAFKAPROD, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("kafkaprod")
