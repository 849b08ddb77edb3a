"""The options against `java_producer_config.tsv`, from ProducerConfig.configDef() of 4.3."""

import csv
from pathlib import Path

import pytest

from spark_kafka_sink.config import known_options
from spark_kafka_sink.config.known_options import PRODUCER_NAMES
from spark_kafka_sink.config.option_definition import Option, OptionType
from spark_kafka_sink.config.option_parser import parse_value
from spark_kafka_sink.config.option_tables import PRODUCER_OPTIONS, SINK_OPTIONS
from spark_kafka_sink.config.security.security_names import (
    IGNORED_JAVA_SECURITY_KEYS,
    REJECTED_SECURITY_KEYS,
    SECURITY_NAMES,
)
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from tests.unit.config.parsing import DEVIATIONS

with (Path(__file__).parent / "java_producer_config.tsv").open() as lines:
    JAVA = {row["name"]: row for row in csv.DictReader(lines, delimiter="\t")}
NOT_IN_JAVA = {option.name for option in PRODUCER_OPTIONS if not option.is_java_option}
"""Options that Java does not have, mostly librdkafka's."""
SHARED = [option for option in PRODUCER_OPTIONS if option.name not in NOT_IN_JAVA]
WITHOUT_RANGE = {"bootstrap.servers", "partitioner.class"}
IN_ANY_CASE = "(case insensitive) "


def java_range(option: Option) -> str:
    """Return the range as Java's validators print it."""
    if option.ignores_case:
        return f"{IN_ANY_CASE}[{', '.join(option.choices).upper()}]"
    if option.choices:
        return f"[{', '.join(option.choices)}]"
    if option.extra_value is not None:
        return f"[{option.low},...,{option.high}] or {option.extra_value}"
    if option.high is not None:
        return f"[{option.low},...,{option.high}]"
    return f"[{option.low},...]"


@pytest.mark.parametrize("option", SHARED, ids=lambda option: option.name)
def test_type_matches_java(option: Option) -> None:
    kind = "CLASS" if option.name == "partitioner.class" else option.kind.name
    assert JAVA[option.name]["type"] == kind


@pytest.mark.parametrize("option", SHARED, ids=lambda option: option.name)
def test_default_matches_java(option: Option) -> None:
    expected = {"required": "None", "null": ""}.get(*[JAVA[option.name]["default"]] * 2)
    value = option.java_default
    assert expected == (str(value).lower() if isinstance(value, bool) else str(value))


@pytest.mark.parametrize(
    "option",
    [option for option in SHARED if option.name not in WITHOUT_RANGE],
    ids=lambda option: option.name,
)
def test_allowed_values_match_java(option: Option) -> None:
    allowed = JAVA[option.name]["allowed"]
    if allowed and option.name != "retries":
        assert java_range(option) == allowed


@pytest.mark.parametrize("option", [*SHARED, *SECURITY_OPTIONS], ids=lambda option: option.name)
def test_case_of_values_matters_only_if_it_does_in_java(option: Option) -> None:
    if IN_ANY_CASE in JAVA.get(option.name, {"allowed": ""})["allowed"]:
        assert option.ignores_case
        for choice in option.choices:
            assert parse_value(option, f" {choice.swapcase()} ", option.name) == choice


def test_every_java_name_is_covered() -> None:
    rejected = known_options.SERIALIZERS | known_options.UNSAFE_KEYS
    security = SECURITY_NAMES | IGNORED_JAVA_SECURITY_KEYS | REJECTED_SECURITY_KEYS.keys()
    rest = JAVA.keys() - PRODUCER_NAMES - known_options.IGNORED_PRODUCER_KEYS - rejected - security
    assert {name for name in rest if not name.startswith(known_options.UNSAFE_PREFIXES)} == set()
    assert PRODUCER_NAMES - JAVA.keys() == NOT_IN_JAVA
    assert not NOT_IN_JAVA & JAVA.keys()
    assert JAVA.keys() >= known_options.IGNORED_PRODUCER_KEYS


def test_deviations_differ_and_are_few() -> None:
    assert len(DEVIATIONS) <= 8
    assert all(option.sink_default != option.java_default for option in DEVIATIONS)


def test_defaults_are_allowed() -> None:
    for option in (*PRODUCER_OPTIONS, *SINK_OPTIONS):
        if option.kind in (OptionType.INT, OptionType.LONG):
            assert option.accepts(int(option.default))  # type: ignore[arg-type]
            assert option.accepts(int(option.java_default))  # type: ignore[arg-type]
        if option.choices:
            assert option.default in option.choices


def test_names_are_unique() -> None:
    option_names = [option.name.lower() for option in (*PRODUCER_OPTIONS, *SINK_OPTIONS)]
    assert len(option_names) == len(set(option_names))
