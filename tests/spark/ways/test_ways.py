"""No way to write loses rows in silence: each writes them all, or refuses and says why."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.spark.ways.batch import BATCH
from tests.spark.ways.pipelines import CONNECT
from tests.spark.ways.shipped import SECURED, to_ship
from tests.spark.ways.sql import SQL
from tests.spark.ways.stream import STREAMS
from tests.spark.ways.way import Way, Write, attempt
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from _pytest.mark.structures import ParameterSet
    from pyspark.sql import SparkSession

WAYS = (*BATCH, *SQL, *STREAMS)
KINDS = (
    *("save", "save-as-table", "save-overwrite", "insert-into", "write-to-append-with-options"),
    *("write-to-create", "sql-insert", "sql-insert-with-options", "sql-insert-overwrite"),
    *("stream-append-available-now", "stream-exactly-once", "stream-continuous"),
    *("stream-to-table", "stream-for-each-batch", "secured-save"),
    "stream-for-each-batch-exactly-once",
    *("save-a-bad-row", "stream-reported", "stream-a-bad-row", "progress", "pipeline"),
)
"""Names of ways of each kind, which `make test` tries with Spark Connect."""
_CONNECT_S = 900


def _classic(ways: Iterable[Way]) -> list[ParameterSet]:
    return [pytest.param(way, id=way.name) for way in ways]


def _connect(ways: Iterable[Way]) -> list[ParameterSet]:
    return [
        pytest.param(way, id=way.name, marks=[pytest.mark.deep] * (way.name not in KINDS))
        for way in ways
    ]


def _judge(way: Way, error: str | None, broker: EmbeddedBroker, topic: str) -> None:
    if way.refused is None:
        assert error is None
    else:
        assert error is not None, "it was not refused"
        assert re.search(way.refused, error), error
    expected = 0 if way.refused else way.rows
    if way.transactional:
        assert len(by_confluent(broker.bootstrap_servers, topic)) == expected
    else:
        assert sum(broker.end_offsets(topic)) == expected


@pytest.mark.parametrize("way", _classic(WAYS))
def test_all_rows_or_a_refusal(
    way: Way, spark: SparkSession, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = f"classic-{way.name}"
    embedded_broker.create_topic(topic, 2)
    error = attempt(way, Write(spark, embedded_broker.bootstrap_servers, topic, tmp_path))
    _judge(way, error, embedded_broker, topic)


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    """It speaks TLS, and asks for a password."""
    topics = {f"{kind}-{way.name}": 2 for way in SECURED for kind in ("classic", "connect")}
    with EmbeddedBroker(tls=True, sasl={"alice": "secret"}, topics=topics) as broker:
        yield broker


@pytest.mark.parametrize("way", _classic(SECURED))
def test_a_secured_broker(
    way: Way, spark: SparkSession, secured: EmbeddedBroker, tmp_path: Path
) -> None:
    file, options = to_ship(secured, tmp_path)
    spark.sparkContext.addFile(str(file))
    topic = f"classic-{way.name}"
    write = Write(spark, secured.bootstrap_servers, topic, tmp_path, options)
    _judge(way, attempt(way, write), secured, topic)


def _chosen(request: pytest.FixtureRequest) -> set[str]:
    """Names of the ways that tests of this run try with Spark Connect."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    ways = (item.callspec.params["way"] for item in items if "connect_errors" in item.fixturenames)
    return {way.name for way in ways if isinstance(way, Way)}


@pytest.fixture(scope="module")
def connect_errors(
    request: pytest.FixtureRequest,
    embedded_broker: EmbeddedBroker,
    secured: EmbeddedBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str | None]:
    """What each way said with Spark Connect, which needs a process of its own."""
    names = sorted(_chosen(request))
    for way in (*WAYS, *CONNECT):
        embedded_broker.create_topic(f"connect-{way.name}", 2)
    folder, shipped = tmp_path_factory.mktemp("connect"), tmp_path_factory.mktemp("shipped")
    command = [sys.executable, "-m", "tests.spark.ways.connect_child", str(folder)]
    file, options = to_ship(secured, shipped)
    told = {"servers": secured.bootstrap_servers, "options": options, "file": str(file)}
    done = subprocess.run(
        [*command, embedded_broker.bootstrap_servers, json.dumps(told), *names],
        capture_output=True,
        text=True,
        timeout=_CONNECT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    errors: dict[str, str | None] = json.loads((folder / "errors.json").read_text())
    return errors


@pytest.mark.timeout(_CONNECT_S)
@pytest.mark.parametrize("way", _connect((*WAYS, *CONNECT)))
def test_all_rows_or_a_refusal_with_spark_connect(
    way: Way, connect_errors: dict[str, str | None], embedded_broker: EmbeddedBroker
) -> None:
    _judge(way, connect_errors[way.name], embedded_broker, f"connect-{way.name}")


@pytest.mark.timeout(_CONNECT_S)
@pytest.mark.parametrize("way", _connect(SECURED))
def test_a_secured_broker_with_spark_connect(
    way: Way, connect_errors: dict[str, str | None], secured: EmbeddedBroker
) -> None:
    """The file goes by addArtifact."""
    _judge(way, connect_errors[way.name], secured, f"connect-{way.name}")
