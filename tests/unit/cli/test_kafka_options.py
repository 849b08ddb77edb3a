"""Options of commands that connect to Kafka: files, prefixes and precedence."""

from pathlib import Path

import pytest

from spark_kafka_sink.cli.kafka_options import (
    ConnectionArguments,
    connection_options,
    parse_write_options,
)
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.schema_registry import REGISTRY_NAMES
from spark_kafka_sink.config.sink_config import ProducerConfig

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required password="a=b";'
FOREIGN = {
    "ssl.client.auth": "required",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.storage.topic": "x",
    "listeners": "PLAINTEXT://:9092",
    "instance": "x",
    "axual.tenant": "x",
    "plugin.path": "/x",
    "producer.acks": "all",
    "//": "a comment",
    "[default]": "",
}
"""Options of brokers, Connect, tools and vendors in files that clients share."""


def failure(config: Path | None, *arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_write_options(config, arguments)
    assert "sentinel" not in str(caught.value)
    return str(caught.value)


def test_command_line_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# as Kafka's tools take it\nsecurity.protocol=SASL_SSL\nkafka.sasl.mechanism=PLAIN\n"
        + LOGIN.replace("org.", "sasl.jaas.config=org.").replace(" required", " \\\n  required")
    )
    options = parse_write_options(file, ["kafka.security.protocol=SSL", "kafka.client.id=a=b"])
    assert options == {
        "kafka.security.protocol": "SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": LOGIN,
        "kafka.client.id": "a=b",
    }


@pytest.mark.parametrize(
    ("in_file", "argument"),
    [
        ("sasl.mechanisms=PLAIN", "kafka.sasl.mechanism=GSSAPI"),
        ("kafka.linger.ms=1", "queue.buffering.max.ms=2"),
        ("kafka.acks=1", "kafka.ACKS=all"),
        ("schema.registry.basic.auth.user.info=a:b", "basic.auth.user.info=c:d"),
    ],
)
def test_command_line_overrides_an_option_by_another_name(
    tmp_path: Path, in_file: str, argument: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(in_file)
    name, _, value = argument.partition("=")
    prefix = "kafka." if name == "queue.buffering.max.ms" else ""
    options = parse_write_options(file, [argument], allow_sink_options=True)
    assert options == {f"{prefix}{name}": value}


@pytest.mark.parametrize("name", ["metadata.broker.list", "kafka.BOOTSTRAP.servers"])
def test_bootstrap_servers_by_another_name(tmp_path: Path, name: str) -> None:
    file = tmp_path / "kcat.conf"
    file.write_text(f"{name.replace('BOOTSTRAP', 'bootstrap')}=h:1\n")
    expected = {"kafka.bootstrap.servers": "h:1"}
    assert connection_options(ConnectionArguments(config=file)) == expected
    assert connection_options(ConnectionArguments(option=[f"{name}=h:1"])) == expected
    with_argument = ConnectionArguments(config=file, bootstrap_servers="b:2")
    assert connection_options(with_argument) == {"kafka.bootstrap.servers": "b:2"}


def test_no_arguments_give_no_options() -> None:
    assert parse_write_options(None, []) == {}


def test_prefix_is_optional() -> None:
    assert parse_write_options(None, ["security.protocol=SSL"]) == {
        "kafka.security.protocol": "SSL"
    }


def test_serializers_in_a_properties_file_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text("key.serializer=a.B\nkafka.value.serializer=a.B\nacks=all\n")
    assert parse_write_options(file, []) == {"kafka.acks": "all"}


def test_registry_in_a_properties_file_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "java.config"
    names = sorted({*REGISTRY_NAMES, "schema.registry.basic.auth.user.info"})
    file.write_text("".join(f"{name}=x\n" for name in names) + "acks=all\n")
    assert parse_write_options(file, []) == {"kafka.acks": "all"}
    assert [record.getMessage().split()[1] for record in caplog.records] == names
    with_registry = parse_write_options(file, [], allow_sink_options=True)
    assert {*names} <= with_registry.keys()


def check_bootstrap_servers(file: Path) -> None:
    """Check that a producer accepts the options, with and without options of the sink."""
    for allow_sink_options in (False, True):
        options = parse_write_options(file, [], allow_sink_options=allow_sink_options)
        assert ProducerConfig.parse(options).bootstrap_servers == ("h:1",)


@pytest.mark.parametrize("name", FOREIGN)
def test_options_of_other_programs_in_a_file(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{name}={FOREIGN[name]}\nbootstrap.servers=h:1\n")
    check_bootstrap_servers(file)
    assert "no effect" in caplog.text


@pytest.mark.parametrize("line", ["MIIEsentinel0", "  sentinel", "sentinel12==", "sentinel-4;"])
def test_line_of_a_value_is_not_shown(
    tmp_path: Path, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers=h:1\nssl.key.password=x\n{line}\n")
    check_bootstrap_servers(file)
    assert "has no value: end each line of a value except the last with a backslash" in caplog.text
    assert "sentinel" not in caplog.text


def test_typo_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("securty.protocol=SSL\n")
    assert "Did you mean security.protocol?" in failure(file)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text("client.id=\u00e9\n", encoding=encoding)
    assert parse_write_options(file, []) == {"kafka.client.id": "\u00e9"}


@pytest.mark.parametrize("text", ["topic=sentinel", "=sentinel", "kafka.sentinel"])
def test_invalid_option_is_reported(text: str) -> None:
    assert "is not a Kafka option. Use --option kafka.name=value" in failure(None, text)


def test_misplaced_secret_is_not_shown() -> None:
    assert "--option … is not a Kafka option" in failure(None, "sentinel")


def test_unreadable_file_is_named(tmp_path: Path) -> None:
    assert f"{tmp_path} cannot be read: Is a directory" in failure(tmp_path)
    file = tmp_path / "f"
    file.write_bytes(b"a=\xff")
    assert "cannot be read: it is not UTF-8" in failure(file)
    file.write_text("p=sentinel\\user")
    assert "the value of p has a \\u that is not followed" in failure(file)
    file.write_text('"sentinel\\user";')
    assert "the value of (a text of 15 characters) has a \\u" in failure(file)


@pytest.mark.parametrize("name", ["acks", "kafka.sasl.password", "ssl.key.password"])
def test_name_without_a_value_is_repeated_if_harmless(name: str) -> None:
    assert f"--option {name} has no value. Use --option {name}=value" in failure(None, name)


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("compresion.type=zstd", "unknown option compresion.type. Did you mean compression.type?"),
        ("errors.tolerence=all", "unknown option errors.tolerence. Did you mean errors.tolerance?"),
        ("broker.lst=h:1", "unknown option broker.lst. Use kafka.bootstrap.servers."),
    ],
)
def test_unknown_name_is_shown_as_typed(argument: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_write_options(None, [argument], allow_sink_options=True)
    assert str(caught.value) == says


def test_unrelated_name_is_accepted_as_in_a_write() -> None:
    assert parse_write_options(None, ["foo=1"], allow_sink_options=True) == {"foo": "1"}
    assert "unknown option foo. It is not a Kafka producer option." in failure(None, "foo=1")


def test_topic_setting_is_accepted() -> None:
    name = "topic.config.retention.ms"
    assert parse_write_options(None, [f"{name}=1"], allow_sink_options=True) == {name: "1"}
