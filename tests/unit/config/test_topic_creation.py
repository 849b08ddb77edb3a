"""The options of a topic that the driver creates."""

from __future__ import annotations

import pytest

from spark_kafka_sink.broker.topic_config import TOPIC_KEYS
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.config.topic_creation import TOPIC_SETTINGS, TopicCreation


def parsed(**options: str) -> TopicCreation:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return SinkConfig.parse({"kafka.bootstrap.servers": "kafka:9092", **named}).topic_creation


def test_what_is_left_out_is_the_brokers_default() -> None:
    assert parsed(topic="t") == TopicCreation()
    assert parsed(topic="t", topic__create="true") == TopicCreation(create=True)


def test_topics_of_a_column_are_created_as_well() -> None:
    assert parsed(topic__create="true") == TopicCreation(create=True)


def test_settings_of_the_topic() -> None:
    found = parsed(
        topic="t",
        topic__create="true",
        topic__partitions="8",
        topic__replication__factor="3",
        topic__config__retention__ms="1000",
        topic__config__cleanup__policy="compact",
    )
    assert found == TopicCreation(
        create=True,
        partitions=8,
        replication_factor=3,
        configs=(("cleanup.policy", "compact"), ("retention.ms", "1000")),
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"topic": "t", "topic__partitions": "8"}, "topic.partitions"),
        ({"topic": "t", "topic__config__a": "1"}, "topic.config.a"),
        ({"topic": "t", "topic__creat": "true"}, "mean topic.create"),
    ],
)
def test_what_contradicts_itself(options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parsed(**options)


def test_settings_of_the_embedded_broker_are_known() -> None:
    assert TOPIC_KEYS.keys() <= TOPIC_SETTINGS


def test_a_setting_that_resembles_one_is_a_typo_and_a_vendors_own_is_not() -> None:
    with pytest.raises(ConfigError, match=r"mean topic\.config\.retention\.ms"):
        parsed(topic="t", topic__create="true", topic__config__retentionms="5")
    assert parsed(topic="t", topic__create="true", topic__config__confluent__value__schema="x")


@pytest.mark.parametrize(
    ("name", "text", "says", "hint"),
    [
        ("retention.ms", "1h", "an integer, in milliseconds", "Write 3600000 for 1h."),
        (
            "segment.bytes",
            "64MB",
            "an integer, in bytes",
            "Write 67108864 for 64MB: sizes are powers of 1,024, as in Spark.",
        ),
        ("retention.ms", "soon", "an integer, in milliseconds", None),
    ],
)
def test_a_setting_of_the_topic_with_a_unit_is_told_the_number(
    name: str, text: str, says: str, hint: str | None
) -> None:
    options = {"topic": "t", "topic.create": "true", f"topic.config.{name}": text}
    with pytest.raises(ConfigError) as caught:
        parsed(**options)
    assert caught.value.args[0] == f"option topic.config.{name} is {text!r}; allowed: {says}"
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "text"), [("retention.ms", "-1"), ("vendor.tier.ms", "1h"), ("cleanup.policy", "x")]
)
def test_what_only_the_brokers_can_judge_is_left_to_them(name: str, text: str) -> None:
    options = {"topic": "t", "topic.create": "true", f"topic.config.{name}": text}
    assert parsed(**options).configs == ((name, text),)
