"""Segments that are damaged or missing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.storage.data_dir import CLEAN_MARK
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.storage.disk_folder import (
    broker_folder,
    client_of,
    write_segments,
    write_until_crash,
)
from tools.support.raw_client import TIMEOUT, batch, fetch, produce


@pytest.mark.parametrize("damage", ["cut", "flip", "garbage", "zeros"])
def test_damaged_end_of_log_is_truncated(data_dir: str, damage: str) -> None:
    with EmbeddedBroker(data_dir=data_dir, topics={"t": 1}) as kafka, client_of(kafka) as client:
        for _ in range(5):
            produce(client, "t", batch(4))
        complete = kafka.batches("t", 0)
    (broker_folder(data_dir, "t").parent / CLEAN_MARK).unlink()
    log = broker_folder(data_dir, "t") / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    if damage == "cut":
        del data[-7:]
    elif damage == "flip":
        data[-3] ^= 0x10
    else:
        data += bytes(5000) if damage == "zeros" else b"\xa5" * 5000
    log.write_bytes(data)
    kept = complete if damage in {"garbage", "zeros"} else complete[:-1]
    with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
        assert kafka.batches("t", 0) == kept
        assert log.stat().st_size == sum(map(len, kept))
        assert produce(client, "t", batch(1)).base_offset == 4 * len(kept)


def test_segments_after_a_damaged_one_are_deleted(data_dir: str, tmp_path: Path) -> None:
    complete = write_until_crash(data_dir, tmp_path / "crashed")
    location = tmp_path / "crashed" / "t-0"
    paths = sorted(location.glob("*.log"))
    assert len(paths) == 6
    paths[2].write_bytes(paths[2].read_bytes()[:-1])
    with EmbeddedBroker(data_dir=str(tmp_path / "crashed")) as kafka:
        assert kafka.batches("t", 0) == complete[:2]
    assert sorted(location.glob("*.log")) == paths[:3]


@pytest.mark.parametrize("state", ["flushed", "stopped earlier"])
def test_damage_in_flushed_segments_deletes_nothing(
    data_dir: str, tmp_path: Path, state: str
) -> None:
    """A crash cannot have damaged data that was flushed before."""
    crashed = tmp_path / "crashed"
    complete = write_until_crash(data_dir, crashed, flush_messages="1")
    if state == "stopped earlier":
        shutil.rmtree(crashed)
        with EmbeddedBroker(data_dir=data_dir):
            shutil.copytree(data_dir, crashed)
    log = sorted((crashed / "t-0").glob("*.log"))[2]
    intact = log.read_bytes()
    log.write_bytes(intact[:-9] + b"\xff" + intact[-8:])
    with EmbeddedBroker(data_dir=str(crashed)) as kafka:
        assert [*kafka.batches("t", 0)[:2], *kafka.batches("t", 0)[3:]] == [
            *complete[:2],
            *complete[3:],
        ]
        shutil.rmtree(data_dir)
        shutil.copytree(crashed, data_dir)
    damaged = Path(data_dir) / log.relative_to(crashed)
    damaged.write_bytes(intact[:-1])
    before = {path: path.read_bytes() for path in damaged.parent.iterdir()}
    with pytest.raises(ConfigError, match="no valid batch at byte 0") as caught:
        EmbeddedBroker(data_dir=data_dir).start()
    assert f"{damaged} is damaged" in str(caught.value)
    assert {path: path.read_bytes() for path in damaged.parent.iterdir()} == before
    damaged.unlink()
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        assert kafka.batches("t", 0) == [*complete[:2], *complete[3:]]


@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 0)])
def test_segment_damaged_while_the_broker_runs(
    data_dir: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    write_segments(data_dir, 3)
    log = broker_folder(data_dir, "t") / f"{0:020}.log"
    with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
        damage(log)
        assert fetch(client, "t", 0).error_code is ErrorCode.kafka_storage_error
        assert fetch(client, "t", 2).error_code is ErrorCode.none
    assert str(log) in caplog.text
    assert not log.exists() or not log.stat().st_size


@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 0)])
def test_missing_segments_are_an_error_after_a_clean_stop(
    data_dir: str, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    """After a clean stop they are an error. After a crash, the other segments can be read."""
    complete = write_segments(data_dir, 5)
    location = broker_folder(data_dir, "t")
    for path in sorted(location.glob("*.log"))[1:3]:
        damage(path)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"the offsets 2 to \d are missing"):
            EmbeddedBroker(data_dir=data_dir).start()
    (Path(data_dir) / CLEAN_MARK).unlink()
    for end in (10, 12):
        with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
            assert kafka.batches("t", 0)[:3] == [complete[0], *complete[3:]]
            assert produce(client, "t", batch(2)).base_offset == end
    assert "are missing" in caplog.text
    sorted(location.glob("*.log"))[-2].unlink()
    with pytest.raises(ConfigError, match="are missing"):
        EmbeddedBroker(data_dir=data_dir).start()


@pytest.mark.parametrize("kept", [0, 3])
def test_missing_last_segments(data_dir: str, kept: int, caplog: pytest.LogCaptureFixture) -> None:
    complete = write_segments(data_dir, 5)
    for path in sorted(broker_folder(data_dir, "t").glob("*.log"))[kept:]:
        for suffix in (".log", ".index", ".timeindex"):
            path.with_suffix(suffix).unlink()
    problem = f"the offsets {2 * kept} to 9 are missing"
    with pytest.raises(ConfigError, match=problem):
        EmbeddedBroker(data_dir=data_dir).start()
    (Path(data_dir) / CLEAN_MARK).unlink()
    with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
        assert problem in caplog.text
        assert kafka.batches("t", 0) == complete[:kept]
        assert produce(client, "t", batch(1)).base_offset == 2 * kept
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        assert kafka.end_offsets("t") == [2 * kept + 1]


def test_missing_segments_below_the_log_start(data_dir: str) -> None:
    """Their deletion might have been interrupted."""
    complete = write_segments(data_dir, 5)
    with EmbeddedBroker(data_dir=data_dir) as kafka, client_of(kafka) as client:
        delete = {"name": "t", "partitions": [{"partition_index": 0, "offset": 6}]}
        client.call(ApiKey.DELETE_RECORDS, 2, topics=[delete], timeout=TIMEOUT)
    (broker_folder(data_dir, "t") / f"{0:020}.log").write_bytes(complete[0])
    with EmbeddedBroker(data_dir=data_dir) as kafka:
        assert kafka.batches("t", 0) == complete[3:]
