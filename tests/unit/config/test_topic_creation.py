"""Options of topics that the driver creates."""

import pytest

from spark_kafka_sink.broker.config.topic_config import TOPIC_KEYS
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.topic_creation import TOPIC_SETTINGS, TopicCreation
from tests.unit.config.parsing import parse


def test_missing_options_use_the_brokers_defaults() -> None:
    assert parse(topic="t").topic_creation == TopicCreation()
    assert parse(topic="t", topic__create="true").topic_creation == TopicCreation(create=True)
    assert parse(topic__create="true").topic_creation == TopicCreation(create=True)


def test_topic_settings_are_parsed() -> None:
    config = parse(
        topic="t",
        topic__create="true",
        topic__partitions="8",
        topic__replication__factor="3",
        topic__config__retention__ms="1000",
        topic__config__cleanup__policy="compact",
    ).topic_creation
    assert config == TopicCreation(
        create=True,
        partitions=8,
        replication_factor=3,
        configs=(("cleanup.policy", "compact"), ("retention.ms", "1000")),
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topic": "t", "topic__partitions": "8"}, "topic.partitions"),
        ({"topic": "t", "topic__config__a": "1"}, "topic.config.a"),
        ({"topic": "t", "topic__creat": "true"}, "mean topic.create"),
    ],
)
def test_conflicting_options_are_rejected(options: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        parse(**options)


def test_embedded_brokers_topic_settings_are_known() -> None:
    assert TOPIC_KEYS.keys() <= TOPIC_SETTINGS


def test_misspelled_setting_is_rejected_and_vendor_setting_is_accepted() -> None:
    with pytest.raises(ConfigError, match=r"mean topic\.config\.retention\.ms"):
        parse(topic="t", topic__create="true", topic__config__retentionms="5")
    parse(topic="t", topic__create="true", topic__config__confluent__value__schema="x")


@pytest.mark.parametrize(
    ("name", "text", "expected", "hint"),
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
def test_setting_with_a_unit_has_the_number_in_its_hint(
    name: str, text: str, expected: str, hint: str | None
) -> None:
    options = {"topic": "t", "topic.create": "true", f"topic.config.{name}": text}
    with pytest.raises(ConfigError) as caught:
        parse(**options)
    assert caught.value.args[0] == f"option topic.config.{name} is {text!r}; allowed: {expected}"
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("name", "text"), [("retention.ms", "-1"), ("vendor.tier.ms", "1h"), ("cleanup.policy", "x")]
)
def test_values_that_only_brokers_can_validate_are_accepted(name: str, text: str) -> None:
    options = {"topic": "t", "topic.create": "true", f"topic.config.{name}": text}
    assert parse(**options).topic_creation.configs == ((name, text),)
