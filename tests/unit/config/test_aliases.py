"""Option names of librdkafka's and Java's producers: accepted, ignored with a warning, or rejected.

`librdkafka_config.tsv` is librdkafka's CONFIGURATION.md of 2.15 with the outcome for each name.
"""

import csv
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config import known_options
from spark_kafka_sink.config.aliases import ALIASES
from spark_kafka_sink.config.enums import Acks, Codec
from spark_kafka_sink.config.option_tables import PRODUCER_OPTIONS
from spark_kafka_sink.config.security.security_names import (
    IGNORED_SECURITY_KEYS,
    SECURITY_ALIASES,
    SECURITY_NAMES,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from tests.unit.config.parsing import MINIMAL, failure

HERE = Path(__file__).parent
SERVERS = "kafka.bootstrap.servers"
VALUES = {
    "compression.codec": "lz4",
    "compression.type": "lz4",
    "metadata.broker.list": "broker:9092",
    "bootstrap.servers": "broker:9092",
    "metadata.recovery.strategy": "none",
    "partitioner": "random",
    "debug": "broker",
    "client.id": "me",
    "max.in.flight": "2",
    "request.required.acks": "all",
    "acks": "all",
    "message.timeout.ms": "500000",
    "delivery.timeout.ms": "500000",
    "allow.auto.create.topics": "true",
    "enable.idempotence": "true",
    "enable.gapless.guarantee": "true",
}
"""Allowed values of options that do not accept 5."""
KNOWN = sorted(
    known_options.PRODUCER_NAMES
    | ALIASES.keys()
    | known_options.IGNORED_PRODUCER_KEYS
    | SECURITY_NAMES
    | SECURITY_ALIASES.keys()
    | IGNORED_SECURITY_KEYS
)
SPECIAL: list[tuple[str, str, str, Any]] = [
    ("message.timeout.ms", "0", "delivery_timeout_ms", 2**31 - 1),
    ("queue.buffering.max.kbytes", "65536", "buffer_memory", 2**26),
    ("socket.send.buffer.bytes", "0", "send_buffer_bytes", -1),
    ("socket.receive.buffer.bytes", "0", "receive_buffer_bytes", -1),
    ("topic.metadata.refresh.interval.ms", "-1", "metadata_max_age_ms", 2**31 - 1),
    ("request.required.acks", "-1", "acks", Acks.ALL),
    ("compression.codec", "zstd", "compression_type", Codec.ZSTD),
]


def table(name: str) -> dict[str, dict[str, str]]:
    with (HERE / name).open() as lines:
        return {row["name"]: row for row in csv.DictReader(lines, delimiter="\t")}


LIBRDKAFKA = table("librdkafka_config.tsv")
JAVA = table("java_producer_config.tsv")


def parse(**options: str) -> ProducerConfig:
    kafka_options = {f"kafka.{name.replace('__', '.')}": value for name, value in options.items()}
    return ProducerConfig.parse(MINIMAL | kafka_options)


def outcome(name: str) -> str:
    """Return the error for the option with an unusual value; empty if there is none."""
    try:
        ProducerConfig.parse(MINIMAL | {f"kafka.{name}": "x"})
    except ConfigError as error:
        return str(error)
    return ""


def hint(name: str) -> str | None:
    """Return the option that the error about a name suggests."""
    suggestion = re.search(r"(?:Did you mean|Use) (\S+?)[?.,:]?(?:\s|$)", failure({name: "x"}))
    return None if suggestion is None else suggestion[1]


@pytest.mark.parametrize("name", [n for n, row in LIBRDKAFKA.items() if row["fate"] == "own"])
def test_java_names_with_the_same_meaning_are_accepted(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {name: VALUES.get(name, "5")} | (
        {"compression.type": "lz4"} if "level" in name else {}
    )
    ProducerConfig.parse(MINIMAL | {f"kafka.{key}": value for key, value in options.items()})
    assert not caplog.records


@pytest.mark.parametrize("name", [n for n, row in LIBRDKAFKA.items() if row["fate"] == "alias"])
def test_other_aliases_are_accepted(name: str, caplog: pytest.LogCaptureFixture) -> None:
    real = LIBRDKAFKA[name]["option"]
    assert ALIASES[name].option == real
    kafka_options = {f"kafka.{name}": VALUES.get(name, "5")}
    ours = ProducerConfig.parse((MINIMAL if real != "bootstrap.servers" else {}) | kafka_options)
    unit = 1024 if name.endswith("kbytes") else 1
    value = VALUES.get(name, str(5 * unit))
    assert ours == ProducerConfig.parse(MINIMAL | {f"kafka.{real}": value})
    assert not caplog.records


@pytest.mark.parametrize("name", [n for n, row in LIBRDKAFKA.items() if row["fate"] == "warned"])
def test_names_that_are_safe_to_ignore_warn(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert ProducerConfig.parse(MINIMAL | {f"kafka.{name}": "x"}) == parse()
    assert [record.getMessage() for record in caplog.records] == [
        f"Option kafka.{name} is not supported and has no effect"
    ]


@pytest.mark.parametrize("name", [n for n, row in LIBRDKAFKA.items() if row["fate"] == "refused"])
def test_other_names_are_rejected_with_the_right_hint(name: str) -> None:
    assert "Did you mean" not in failure({f"kafka.{name}": "x"})
    assert hint(f"kafka.{name}") == (LIBRDKAFKA[name]["option"] or None)


@pytest.mark.parametrize("name", sorted(JAVA))
def test_no_hint_about_a_java_name_is_wrong(name: str) -> None:
    text = outcome(name)
    assert "unknown option" not in text
    assert "Did you mean" not in text


def test_security_names_are_accepted_under_the_right_option() -> None:
    fates = {name: row["option"] for name, row in LIBRDKAFKA.items() if row["fate"] == "security"}
    real = {name: alias.option for name, alias in SECURITY_ALIASES.items()}
    assert fates == {name: real.get(name, name) for name in fates}
    assert SECURITY_ALIASES.keys() <= fates.keys()
    assert fates.keys() <= SECURITY_NAMES | SECURITY_ALIASES.keys()


def test_aliases_have_no_second_meaning() -> None:
    assert not ALIASES.keys() & (
        known_options.PRODUCER_NAMES | known_options.IGNORED_KEYS | JAVA.keys()
    )
    assert {alias.option for alias in ALIASES.values()} <= known_options.PRODUCER_NAMES


@pytest.mark.parametrize("name", KNOWN)
def test_misspelled_name_is_never_accepted_as_another_option(name: str) -> None:
    for place in range(len(name)):
        typo = name[:place] + name[place + 1 :]
        if typo in (*LIBRDKAFKA, *JAVA, *KNOWN) or len(typo) < 6:
            continue
        assert hint(f"kafka.{typo}") in (f"kafka.{name}", None), typo


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("timeout.ms", "kafka.request.timeout.ms"),
        ("metadata.fetch.timeout.ms", "kafka.max.block.ms"),
        ("block.on.buffer.full", "kafka.max.block.ms"),
        ("queue.enqueue.timeout.ms", "kafka.max.block.ms"),
        ("topic", "topic"),
        ("compression", "kafka.compression.type"),
        ("brokers", "kafka.bootstrap.servers"),
        ("message.timeout.s", "kafka.message.timeout.ms"),
        ("mesage.timeout.ms", "kafka.message.timeout.ms"),
        ("zstd.level", None),
        ("timeouts.ms", "kafka.request.timeout.ms"),
        ("topic.timeout.ms", None),
    ],
)
def test_hint_is_right_or_missing(name: str, meant: str | None) -> None:
    assert hint(f"kafka.{name}") == meant


@pytest.mark.parametrize(("name", "value", "field", "expected"), SPECIAL)
def test_units_of_aliases(name: str, value: str, field: str, expected: Any) -> None:
    assert getattr(ProducerConfig.parse(MINIMAL | {f"kafka.{name}": value}), field) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"queue.buffering.max.kbytes": "64m"}, "kafka.queue.buffering.max.kbytes is '64m'"),
        ({"queue.buffering.max.kbytes": "-1"}, "kafka.queue.buffering.max.kbytes is '-1'"),
        ({"message.timeout.ms": "soon"}, "kafka.message.timeout.ms is 'soon'"),
        ({"message.max.bytes": "3000000000"}, "kafka.message.max.bytes is '3000000000'"),
        ({"compression.codec": "inherit"}, "kafka.compression.codec is 'inherit'"),
        ({"request.required.acks": "2"}, "kafka.request.required.acks is '2'"),
    ],
)
def test_invalid_value_is_reported_under_the_given_name(
    options: dict[str, str], expected: str
) -> None:
    assert expected in failure({f"kafka.{name}": value for name, value in options.items()})


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_alias_and_option_must_agree(name: str) -> None:
    real = ALIASES[name].option
    value = VALUES.get(name, "5")
    same = str(5 * 1024) if name.endswith("kbytes") else value
    both = {f"kafka.{name}": value, f"kafka.{real}": f" {same} "}
    single = {SERVERS: "broker:9092", f"kafka.{real}": same}
    assert ProducerConfig.parse(both | {SERVERS: "broker:9092"}) == ProducerConfig.parse(single)
    other = {"compression.type": "gzip", "acks": "1", "bootstrap.servers": "other:1"}
    differing = both | {f"kafka.{real}": other.get(real, "4")}
    text = failure(differing)
    assert f"kafka.{name}" in text
    assert f"kafka.{real}" in text
    assert "are synonyms" in text
    assert failure(dict(reversed(differing.items()))) == text


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("compression.codec", "LZ4", "compression_type", Codec.LZ4),
        ("request.required.acks", "ALL", "acks", Acks.ALL),
        ("enable.gapless.guarantee", "1", "enable_gapless_guarantee", True),
        ("enable.gapless.guarantee", "F", "enable_gapless_guarantee", False),
        ("allow.auto.create.topics", "0", "allow_auto_create_topics", False),
        ("allow.auto.create.topics", "t", "allow_auto_create_topics", True),
    ],
)
def test_librdkafkas_spellings_of_values(
    name: str, value: str, field: str, expected: object
) -> None:
    assert getattr(ProducerConfig.parse(MINIMAL | {f"kafka.{name}": value}), field) == expected


def test_alias_in_another_case_agrees_with_the_option() -> None:
    parsed = parse(compression__codec="LZ4", compression__type="lz4")
    assert parsed.compression_type is Codec.LZ4


def test_all_and_minus_one_are_the_same_acks() -> None:
    assert parse(acks="all", request__required__acks="-1").acks is Acks.ALL


def test_two_aliases_of_an_option_must_agree() -> None:
    text = failure({"kafka.message.timeout.ms": "0", "kafka.delivery.timeout.ms": "130000"})
    assert "are synonyms" in text


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({"compression.type": "zstd", "compression.level": "7"}, 7),
        ({"compression.codec": "gzip", "compression.level": "7"}, 7),
        ({"compression.type": "lz4", "compression.level": "-1"}, 9),
        ({"compression.type": "lz4"}, 9),
        ({"compression.type": "lz4", "compression.level": "0"}, 9),
        ({"compression.type": "lz4", "compression.level": "1"}, 9),
        ({"compression.type": "lz4", "compression.level": "9"}, 8),
        ({"compression.type": "lz4", "compression.level": "12"}, 12),
        ({"compression.type": "snappy", "compression.level": "0"}, None),
        ({"compression.level": "5"}, None),
        ({"compression.type": "zstd", "compression.level": "7", "compression.zstd.level": "7"}, 7),
        ({"compression.type": "zstd", "compression.level": "7", "compression.gzip.level": "2"}, 7),
    ],
)
def test_compression_level_applies_to_any_codec(options: dict[str, str], level: int | None) -> None:
    kafka_options = {f"kafka.{name}": value for name, value in options.items()}
    assert ProducerConfig.parse(MINIMAL | kafka_options).compression_level == level


def test_given_level_overrides_the_profile() -> None:
    assert parse(compression__level="5").compression_level is None
    options = MINIMAL | {"profile": "throughput", "kafka.compression.level": "5"}
    assert ProducerConfig.parse(options).compression_level == 5


def test_unsupported_level_and_two_levels() -> None:
    text = failure({"kafka.compression.type": "gzip", "kafka.compression.level": "12"})
    assert "option kafka.compression.level is '12'; allowed: -1 or 1 to 9" in text
    two = {"kafka.compression.level": "5", "kafka.compression.zstd.level": "7"}
    assert "are synonyms" in failure({"kafka.compression.type": "zstd", **two})


def test_every_option_name_is_in_its_clients_table() -> None:
    others = {option.name for option in PRODUCER_OPTIONS if not option.is_java_option}
    assert others <= LIBRDKAFKA.keys()
