"""Options for bad rows and dead letters."""

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.config.sink_config import SinkConfig

SERVERS = {"kafka.bootstrap.servers": "a:1"}


def parse_policy(**options: str) -> DeadLetterPolicy:
    named = {f"errors.{name.replace('_', '.')}": value for name, value in options.items()}
    return SinkConfig.parse({**SERVERS, **named}).dead_letters


def test_default_tolerates_nothing() -> None:
    policy = parse_policy()
    assert policy.tolerance is Tolerance.NONE
    assert not policy.is_tolerant
    assert policy.max_ratio == 1.0


def test_options_are_parsed() -> None:
    policy = parse_policy(tolerance="all", deadletterqueue_topic_name="dead", maxRatio="0.25")
    assert policy.is_tolerant
    assert (policy.dead_letter_topic, policy.context_headers) == ("dead", True)
    assert policy.max_ratio == 0.25


@pytest.mark.parametrize("ratio", ["1.1", "-0.1", "half", "nan", ""])
def test_invalid_ratio_is_rejected(ratio: str) -> None:
    with pytest.raises(ConfigError, match=r"errors\.maxRatio"):
        parse_policy(tolerance="all", maxRatio=ratio)


def test_dead_letter_topic_requires_tolerance() -> None:
    with pytest.raises(ConfigError, match=r"errors\.tolerance"):
        parse_policy(deadletterqueue_topic_name="dead")


def test_invalid_dead_letter_topic_name() -> None:
    with pytest.raises(ConfigError, match="'a b'"):
        parse_policy(tolerance="all", deadletterqueue_topic_name="a b")


def test_dead_letter_topic_must_differ_from_the_topic() -> None:
    """Otherwise a dead letter of an oversized row would be a tombstone."""
    with pytest.raises(ConfigError, match="also option topic"):
        SinkConfig.parse(
            {
                **SERVERS,
                "topic": "events",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": "events",
            }
        )
