"""Names of options: typos, ignored and rejected names."""

import logging
from collections.abc import Iterator

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config import known_options
from spark_kafka_sink.config.security.security_names import (
    IGNORED_SECURITY_KEYS,
    REJECTED_SECURITY_KEYS,
    SECURITY_ALIASES,
    SECURITY_NAMES,
)
from spark_kafka_sink.config.sink_config import SinkConfig
from tests.unit.config.parsing import MINIMAL, failure

OPTIONS = [
    *(f"kafka.{name}" for name in known_options.PRODUCER_NAMES | SECURITY_NAMES),
    *known_options.SINK_NAMES.values(),
]
OF_KAFKA_3 = "auto.include.jmx.reporter"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("kafka.batchsize", "kafka.batch.size"),
        ("kafka.client.dns.lookups", "kafka.client.dns.lookup"),
        ("topics", "topic"),
        ("useTimestamp", "useTimestampColumn"),
        ("kafka.sasl.jaas.conf", "kafka.sasl.jaas.config"),
        ("acks", "kafka.acks"),
        ("queue.buffering.max.ms", "kafka.queue.buffering.max.ms"),
        ("security.protocol", "kafka.security.protocol"),
        ("sasl.mechanism", "kafka.sasl.mechanism"),
        ("ssl.truststore.location", "kafka.ssl.truststore.location"),
        ("enable.ssl.certificate.verification", "kafka.enable.ssl.certificate.verification"),
    ],
)
def test_typo_has_a_suggestion(name: str, meant: str) -> None:
    text = failure({name: "x"})
    assert name.lower() in text
    assert text.endswith(f"Did you mean {meant}?")


def typos(option: str) -> Iterator[str]:
    """Yield the name with a letter removed, doubled, replaced, added, or swapped with the next.

    Of a long name, only some letters are changed.
    """
    first = len("kafka.") if option.startswith("kafka.") else 0
    for place in range(first, len(option), 1 + len(option) // 4):
        start, letter, rest = option[:place], option[place], option[place + 1 :]
        if letter.isalpha():
            yield from (start + new + rest for new in ("", letter * 2, "z", f"{letter}z"))
            yield start + rest[:1] + letter + rest[1:]


@pytest.mark.parametrize("option", sorted(OPTIONS))
def test_each_typo_of_an_option_fails_with_its_name(option: str) -> None:
    known = {name.lower() for name in OPTIONS} | {
        f"kafka.{name}" for name in known_options.KNOWN_NAMES
    }
    for typo in {name.lower() for name in typos(option)} - known:
        suggestion = failure({typo: "x"}).partition("Did you mean ")[2].rstrip("?")
        assert suggestion == option or typo in typos(suggestion.lower()), typo


def test_unknown_producer_option_fails_without_a_suggestion() -> None:
    assert "unknown option kafka.zzzzzz" in failure({"kafka.zzzzzz": "1"})


@pytest.mark.parametrize(
    "name", sorted({*known_options.IGNORED_KEYS, *IGNORED_SECURITY_KEYS, OF_KAFKA_3})
)
def test_option_that_is_safe_to_ignore_warns_once(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            ignored = SinkConfig.parse(MINIMAL | {f"kafka.{name}": "sentinel"})
            assert ignored == SinkConfig.parse(MINIMAL)
    assert [record.getMessage() for record in caplog.records] == [
        f"Option kafka.{name} is not supported and has no effect"
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("bootstrap.servers", "localhost:1"),
        ("acks", "all"),
        ("message.timeout.ms", "200000"),
        ("security.protocol", "PLAINTEXT"),
    ],
)
def test_name_that_is_set_with_and_without_prefix_warns(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with_prefix = MINIMAL | {f"kafka.{name}": value}
    with caplog.at_level(logging.WARNING):
        parsed = SinkConfig.parse(with_prefix | {name.upper(): "other"})
    assert parsed == SinkConfig.parse(with_prefix)
    assert caplog.messages == [f"Option {name} has no effect; kafka.{name} is used"]


@pytest.mark.parametrize("name", ["key.serializer", "value.serializer"])
def test_serializers_are_rejected(name: str) -> None:
    assert f"kafka.{name} is not allowed" in failure({f"kafka.{name}": "x"})


@pytest.mark.parametrize("prefix", ["", "kafka."])
@pytest.mark.parametrize("name", sorted(known_options.UNSAFE_REGISTRY_KEYS))
def test_options_that_select_another_schema_are_rejected(name: str, prefix: str) -> None:
    assert f"option {prefix}{name} is not supported" in failure({f"{prefix}{name}": "x"})


@pytest.mark.parametrize("name", ["transactional.id", "interceptor.classes", "config.providers"])
def test_option_that_is_unsafe_to_ignore_is_rejected(name: str) -> None:
    assert f"kafka.{name} is not supported by this version" in failure({f"kafka.{name}": "x"})


@pytest.mark.parametrize("name", ["config.providers", "config.providers.env.class"])
def test_rejected_config_provider_names_the_references_of_this_sink(name: str) -> None:
    assert failure({f"kafka.{name}": "x"}).endswith(
        "Use env:NAME or file:PATH as the value instead of ${provider:...}."
    )


@pytest.mark.parametrize("name", sorted(REJECTED_SECURITY_KEYS))
def test_unsupported_security_option_is_rejected_with_the_reason(name: str) -> None:
    text = failure({f"kafka.{name}": "sentinel"})
    assert text.startswith(f"option kafka.{name} is not supported. ")
    assert REJECTED_SECURITY_KEYS[name] in text
    assert "sentinel" not in text


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "plaintext"])
def test_plaintext_logs_nothing(protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    options = MINIMAL | {"kafka.security.protocol": protocol}
    assert SinkConfig.parse(options) == SinkConfig.parse(MINIMAL)
    assert not caplog.records


@pytest.mark.parametrize(
    "name", [*sorted(known_options.SPARK_OPTIONS), "checkpointLocation", "queryName"]
)
def test_spark_options_are_ignored(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert SinkConfig.parse(MINIMAL | {name: "x"}) == SinkConfig.parse(MINIMAL)
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "subscribe",
            "Option subscribe applies to reading and has no effect; the option for writing is",
        ),
        ("startingOffsets", "Option startingoffsets applies to reading and has no effect"),
        (
            "maxOffsetsPerTrigger",
            "Option maxoffsetspertrigger applies to reading and has no effect",
        ),
        ("mergeSchema", "Option mergeschema is unknown and has no effect"),
        ("foo", "Option foo is unknown and has no effect"),
        ("x" * 200, "Option (a text of 200 characters) is unknown and has no effect"),
    ],
)
def test_other_options_are_ignored_with_a_warning(
    name: str, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        assert SinkConfig.parse(MINIMAL | {name: "secret"}) == SinkConfig.parse(MINIMAL)
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(expected)
    assert "secret" not in message


def test_name_lists_do_not_overlap() -> None:
    unsupported = known_options.SERIALIZERS | known_options.UNSAFE_KEYS
    assert not known_options.PRODUCER_NAMES & known_options.IGNORED_KEYS
    assert not unsupported & (known_options.PRODUCER_NAMES | known_options.IGNORED_KEYS)
    kinds = (
        SECURITY_NAMES,
        SECURITY_ALIASES.keys(),
        IGNORED_SECURITY_KEYS,
        REJECTED_SECURITY_KEYS.keys(),
        known_options.IGNORED_KEYS | known_options.PRODUCER_NAMES | unsupported,
    )
    assert len(frozenset().union(*kinds)) == sum(map(len, kinds))
    assert not {key for key in known_options.IGNORED_KEYS if key.startswith(("sasl.", "ssl."))}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("kafkaSaslMechanism", "kafka.sasl.mechanism"),
        ("kafka_security_protocol", "kafka.security.protocol"),
        ("kafka-linger-ms", "kafka.linger.ms"),
        ("kafkaesque", ""),
    ],
)
def test_name_without_the_dot_after_kafka_is_unknown(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown option {name.lower()}") as raised:
        SinkConfig.parse({"kafka.bootstrap.servers": "h:9092", name: "x"})
    assert meant in str(raised.value)
    assert "start with 'kafka.'" in str(raised.value)
