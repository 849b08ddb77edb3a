"""The profiles in `conf/`, and the .properties syntax; tests/golden compares it with Java."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config import profiles
from spark_kafka_sink.config.enums import Codec, ProfileName
from spark_kafka_sink.config.known_options import PRODUCER_NAMES
from spark_kafka_sink.config.profiles import find_file, load_profile, parse_properties
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.producer.rows import MAX_CHUNK_BYTES
from spark_kafka_sink.report.spark_settings import UNMEASURED
from tests.unit.config.parsing import DEVIATIONS

NAMED = [profile for profile in ProfileName if profile is not ProfileName.NONE]
NAMES = st.from_regex(r"[A-Za-z.]{1,9}", fullmatch=True)
ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", " ": "\\ "}


def parse(**options: str) -> ProducerConfig:
    kafka_options = {name.replace("__", "."): value for name, value in options.items()}
    return ProducerConfig.parse({"kafka.bootstrap.servers": "b:1"} | kafka_options)


@pytest.mark.parametrize("profile", NAMED)
def test_every_profile_sets_known_options_to_allowed_values(profile: ProfileName) -> None:
    values = load_profile(profile)
    assert values
    assert values.keys() <= PRODUCER_NAMES
    assert parse(profile=profile) != parse()


@pytest.mark.parametrize("profile", NAMED)
def test_every_line_of_a_profile_is_explained(profile: ProfileName) -> None:
    blocks = find_file(f"{profile}.conf").read_text().split("\n\n")
    assert all(block.lstrip().startswith("#") for block in blocks)


def test_purposes_of_the_profiles() -> None:
    assert parse(profile="throughput").compression_type is Codec.ZSTD
    assert parse(profile="throughput").linger_ms == 1_000
    assert parse(profile="latency").linger_ms == 0
    assert not parse(profile="safe").allow_auto_create_topics
    assert parse(profile="safe").delivery_timeout_ms == 600_000


def test_java_lists_exactly_the_deviations() -> None:
    expected = {option.name: str(option.java_default) for option in DEVIATIONS}
    assert load_profile(ProfileName.JAVA) == expected


def test_user_options_override_profiles() -> None:
    producer = parse(profile="throughput", kafka__linger__ms="3", kafka__compression__type="lz4")
    assert (producer.linger_ms, producer.compression_type) == (3, Codec.LZ4)
    assert producer.buffer_memory == 134_217_728


def test_profile_options_count_as_explicit() -> None:
    with pytest.raises(ConfigError, match=r"enable\.idempotence .*kafka\.acks=1"):
        parse(profile="safe", kafka__acks="1")


def test_file_in_the_package_overrides_the_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / "conf").mkdir(parents=True)
    (tmp_path / "conf").mkdir()
    monkeypatch.setattr(profiles, "files", lambda _: package)
    with pytest.raises(ConfigError, match=r"conf/java\.conf"):
        load_profile(ProfileName.JAVA)
    (tmp_path / "conf" / "java.conf").write_text("linger.ms=1")
    assert load_profile(ProfileName.JAVA) == {"linger.ms": "1"}
    (package / "conf" / "java.conf").write_text("linger.ms=2")
    assert load_profile(ProfileName.JAVA) == {"linger.ms": "2"}


def spark_settings(name: str) -> dict[str, int]:
    text = find_file(name).read_text()
    assignments = re.findall(r"^spark\.sql\.execution\.arrow\.(\S+)\s+(\d+)$", text, re.MULTILINE)
    return {key: int(value) for key, value in assignments}


def test_spark_defaults_limit_batches_by_bytes() -> None:
    settings = spark_settings("spark-defaults.conf")
    assert settings == {"maxRecordsPerBatch": 10_000, "maxBytesPerBatch": MAX_CHUNK_BYTES}


def test_small_rows_are_not_measured() -> None:
    settings = spark_settings("spark-small-rows.conf")
    assert settings == {"maxRecordsPerBatch": 10_000, "maxBytesPerBatch": UNMEASURED}


def test_error_of_a_truncated_escape_omits_the_value() -> None:
    with pytest.raises(ConfigError, match="value of a") as caught:
        parse_properties("a=sentinel\\u12")
    assert "sentinel" not in str(caught.value)


@given(st.dictionaries(NAMES, st.text()))
def test_escaped_text_round_trips(values: dict[str, str]) -> None:
    lines = (
        name + "=" + "".join(ESCAPES.get(letter, letter) for letter in value)
        for name, value in values.items()
    )
    assert parse_properties("\n".join(lines)) == values
