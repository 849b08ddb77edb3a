"""Read records and verify reports, on a real Kafka and on the embedded broker."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from typer.testing import CliRunner

from spark_kafka_sink import ConfigError, DeliveryReport, UnknownTopicError, read_records
from spark_kafka_sink.cli.main import app
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.producer.session import ProducerSession
from tests.integration.support.transactions import end, transaction
from tests.support.producer_writes import produce, rows
from tests.support.waiting import wait_until
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka
from tools.support.readers import by_confluent, in_order, ranges

BAD_BYTES = b"\xff\x1b[31m"


def values_of(kafka: AnyKafka, topic: str, **arguments: object) -> list[bytes | None]:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **arguments}
    return [record.value for record in read_records(topic, **options)]  # type: ignore[arg-type]


def transact(kafka: AnyKafka, topic: str, value: bytes, *, commit: bool | None) -> None:
    """Write a record in a transaction; leave the transaction open if `commit` is None."""
    with transaction(kafka.bootstrap_servers) as producer:
        producer.append(rows(topic, [value]))
        producer.flush()
        if commit is not None:
            finish(kafka, topic, producer, commit=commit)


def finish(kafka: AnyKafka, topic: str, producer: ProducerSession, *, commit: bool = True) -> None:
    """End the transaction and wait for its marker, which is written after the response."""
    before = ranges(kafka.bootstrap_servers, topic)[0][1]
    end(kafka.bootstrap_servers, producer.flush_transaction(), commit=commit)
    wait_until(lambda: ranges(kafka.bootstrap_servers, topic)[0][1] != before)


def test_same_records_as_another_consumer(any_kafka: AnyKafka, unique_topic: str) -> None:
    servers = any_kafka.bootstrap_servers
    Admin(servers).create_topic(unique_topic, len(Codec))
    for codec in Codec:
        values = [b"%d" % number for number in range(300)] + [None, b""]
        batch = rows(
            unique_topic,
            values,
            keys=[None, b"k"] * 151,
            headers=[(("h", b"1"), ("null", None)), ()] * 151,
            timestamps=[1_700_000_000_000 + number for number in range(302)],
            partitions=[codec.value] * 302,
        )
        produce(servers, batch, compression_type=codec.name.lower(), batch_size=2_000)
    kafka = {"kafka.bootstrap.servers": servers, "topic": unique_topic, "reportPath": "unused"}
    ours = read_records(**kafka)  # type: ignore[arg-type]
    foreign = in_order(by_confluent(servers, unique_topic))
    assert [(record.partition, record.offset, record.key, record.value) for record in ours] == [
        (record.partition, record.offset, record.key, record.value) for record in foreign
    ]
    assert [tuple(record.headers) for record in ours] == [record.headers for record in foreign]
    table = ours.to_arrow()
    assert table.column("timestamp").cast(pa.int64()).to_pylist()[3] == 1_700_000_000_003
    assert table.num_rows == 302 * len(Codec)


def test_limits_and_offsets(any_kafka: AnyKafka, unique_topic: str) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 2)
    values = [b"%d" % number for number in range(10)]
    batch = rows(unique_topic, values, partitions=[number % 2 for number in range(10)])
    produce(any_kafka.bootstrap_servers, batch)
    assert values_of(any_kafka, unique_topic, limit=3) == [b"0", b"2", b"4"]
    assert values_of(any_kafka, unique_topic, limit=0) == []
    assert values_of(any_kafka, unique_topic, partition=1, offset=3) == [b"7", b"9"]
    assert values_of(any_kafka, unique_topic, offset=-1) == [b"8", b"9"]
    assert values_of(any_kafka, unique_topic, offset=-99) == values[::2] + values[1::2]
    assert values_of(any_kafka, unique_topic, offset=99) == []


def test_transactions(any_kafka: AnyKafka, unique_topic: str) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 1)
    transact(any_kafka, unique_topic, b"aborted", commit=False)
    transact(any_kafka, unique_topic, b"committed", commit=True)
    produce(any_kafka.bootstrap_servers, rows(unique_topic, [b"plain"]))
    assert values_of(any_kafka, unique_topic) == [b"committed", b"plain"]
    assert values_of(any_kafka, unique_topic, uncommitted=True) == [
        b"aborted",
        b"committed",
        b"plain",
    ]
    with transaction(any_kafka.bootstrap_servers) as producer:
        producer.append(rows(unique_topic, [b"open"]))
        producer.flush()
        produce(any_kafka.bootstrap_servers, rows(unique_topic, [b"behind"]))
        assert values_of(any_kafka, unique_topic) == [b"committed", b"plain"]
        assert values_of(any_kafka, unique_topic, uncommitted=True)[-2:] == [b"open", b"behind"]
        finish(any_kafka, unique_topic, producer)
    assert values_of(any_kafka, unique_topic, offset=-4) == [b"plain", b"open", b"behind"]


def test_invalid_arguments(any_kafka: AnyKafka, unique_topic: str) -> None:
    with pytest.raises(UnknownTopicError) as caught:
        values_of(any_kafka, unique_topic)
    assert caught.value.topic == unique_topic
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 2)
    with pytest.raises(UnknownTopicError, match="partitions 0 to 1"):
        values_of(any_kafka, unique_topic, partition=2)
    with pytest.raises(UnknownTopicError, match=f"Did you mean {unique_topic}"):
        values_of(any_kafka, unique_topic.removeprefix("t"))
    with pytest.raises(ConfigError, match="at least one topic"):
        read_records(**{"kafka.bootstrap.servers": any_kafka.bootstrap_servers})  # type: ignore[arg-type]


def run_command(kafka: AnyKafka, *words: str) -> tuple[int, str]:
    arguments = [*words, "--bootstrap-servers", kafka.bootstrap_servers]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    return result.exit_code, result.output


def test_command_escapes_control_characters(any_kafka: AnyKafka, unique_topic: str) -> None:
    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 1)
    produce(
        any_kafka.bootstrap_servers,
        rows(unique_topic, [BAD_BYTES, None], keys=[b"bob", None], headers=[(("h", b"1"),), ()]),
    )
    status, output = run_command(any_kafka, "read", unique_topic)
    assert status == 0
    first, second, last = output.splitlines()
    assert first.startswith(f"{unique_topic}-0@0  20")
    assert first.endswith(r"key=bob  value=\xff\x1b[31m  headers=h=1")
    assert second.endswith("key=null  value=null")
    assert last == "kafkaprod: 2 records"
    _, output = run_command(any_kafka, "read", unique_topic, "--json", "--limit", "1")
    record = json.loads(output.splitlines()[0])
    assert (record["key"], record["value"]) == ("bob", {"base64": "/xtbMzFt"})
    assert record["headers"] == [{"key": "h", "value": "1"}]
    status, output = run_command(any_kafka, "read", unique_topic, "--follow", "--limit", "2")
    assert (status, len(output.splitlines())) == (0, 3)


def verify_report(kafka: AnyKafka, report: DeliveryReport, folder: Path) -> tuple[int, list[str]]:
    (folder / "report.json").write_text(report.to_json())
    status, output = run_command(kafka, "verify", str(folder / "report.json"), "--json")
    return status, [partition["verdict"] for partition in json.loads(output)["partitions"]]


def test_verify_report(any_kafka: AnyKafka, unique_topic: str, tmp_path: Path) -> None:
    admin = Admin(any_kafka.bootstrap_servers)
    admin.create_topic(unique_topic, 2)
    batch = rows(unique_topic, [b"x"] * 600, partitions=[0, 1] * 300)
    report = produce(any_kafka.bootstrap_servers, batch, batch_size=1_000)
    assert verify_report(any_kafka, report, tmp_path) == (0, ["complete", "complete"])
    produce(any_kafka.bootstrap_servers, batch)
    assert verify_report(any_kafka, report, tmp_path) == (0, ["complete", "complete"])
    client = admin.client()
    deleted = client.delete_records([TopicPartition(unique_topic, 1, 7)])
    next(iter(deleted.values())).result(30)
    assert verify_report(any_kafka, report, tmp_path) == (1, ["complete", "missing"])
    _, output = run_command(any_kafka, "verify", str(tmp_path / "report.json"))
    assert "retention has deleted" in output
    assert "600 acknowledged records: 7 missing" in output
    admin.delete_topics(unique_topic)
    assert verify_report(any_kafka, report, tmp_path) == (1, ["missing", "missing"])


def test_verify_truncated_log(any_kafka: AnyKafka, unique_topic: str, tmp_path: Path) -> None:
    admin = Admin(any_kafka.bootstrap_servers)
    admin.create_topic(unique_topic, 1)
    report = produce(any_kafka.bootstrap_servers, rows(unique_topic, [b"x"] * 9))
    admin.delete_topics(unique_topic)
    admin.create_topic(unique_topic, 1)
    produce(any_kafka.bootstrap_servers, rows(unique_topic, [b"x"] * 4))
    assert verify_report(any_kafka, report, tmp_path) == (1, ["missing"])
    _, output = run_command(any_kafka, "verify", str(tmp_path / "report.json"))
    assert "9 acknowledged records: 5 missing" in output


def test_verify_transactions(any_kafka: AnyKafka, unique_topic: str, tmp_path: Path) -> None:
    from spark_kafka_sink.report.task_attempt import TaskAttempt

    Admin(any_kafka.bootstrap_servers).create_topic(unique_topic, 1)
    for commit, verdict in ((True, "complete"), (False, "missing")):
        with transaction(any_kafka.bootstrap_servers) as producer:
            producer.append(rows(unique_topic, [b"a", b"b"]))
            producer.flush()
            report = producer.report(TaskAttempt())
            assert verify_report(any_kafka, report, tmp_path) == (1, ["open transaction"])
            finish(any_kafka, unique_topic, producer, commit=commit)
        assert verify_report(any_kafka, report, tmp_path) == (int(not commit), [verdict])
