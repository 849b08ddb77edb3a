"""Each write method writes all rows or fails with an error."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet
from pyspark.sql import SparkSession

from spark_kafka_sink import EmbeddedBroker
from tests.spark.write_methods.batch import BATCH
from tests.spark.write_methods.pipelines import CONNECT
from tests.spark.write_methods.secured import SECURED, write_trust_file
from tests.spark.write_methods.sql import SQL
from tests.spark.write_methods.stream import IDENTIFIES_RUNS, STREAMS
from tests.spark.write_methods.write_method import ROWS, Write, WriteMethod, run_method
from tests.support.python import run_python
from tools.support.readers import by_confluent

METHODS = (*BATCH, *SQL, *STREAMS)
KINDS = (
    *("save", "save-as-table", "save-overwrite", "insert-into", "write-to-append-with-options"),
    *("write-to-create", "sql-insert", "sql-insert-with-options", "sql-insert-overwrite"),
    *("stream-append-available-now", "stream-exactly-once", "stream-continuous"),
    *("stream-to-table", "stream-for-each-batch", "secured-save"),
    *("stream-for-each-batch-exactly-once", "stream-for-each-batch-twice"),
    *("write", "write-exactly-once", "write-a-bad-row", "write-empty", "stream-micro-batches"),
    *("save-a-bad-row", "stream-reported", "stream-a-bad-row", "progress", "pipeline"),
)
"""Names of methods of each kind, which `make test` runs."""
CONNECT_S = 900


def quick(methods: Iterable[WriteMethod]) -> list[ParameterSet]:
    """Return parameters of which `make test` runs those in `KINDS`."""
    return [
        pytest.param(method, id=method.name, marks=[pytest.mark.quick] * (method.name in KINDS))
        for method in methods
    ]


def named(methods: Iterable[WriteMethod]) -> list[ParameterSet]:
    return [pytest.param(method, id=method.name) for method in methods]


def check_result(
    method: WriteMethod, error: str | None, broker: EmbeddedBroker, topic: str
) -> None:
    if method.error is None:
        assert error is None
    else:
        assert error is not None, "the write did not fail"
        assert re.search(method.error, error), error
    expected = 0 if method.error else method.rows
    if method.transactional:
        assert len(by_confluent(broker.bootstrap_servers, topic)) == expected
    else:
        assert sum(broker.end_offsets(topic)) == expected


@pytest.mark.parametrize("method", quick(METHODS))
def test_writes_all_rows_or_fails(
    method: WriteMethod, spark: SparkSession, embedded_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = f"classic-{method.name}"
    embedded_broker.create_topic(topic, 2)
    error = run_method(method, Write(spark, embedded_broker.bootstrap_servers, topic, tmp_path))
    check_result(method, error, embedded_broker, topic)


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    """Run a broker with TLS and SASL."""
    topics = {f"{kind}-{method.name}": 2 for method in SECURED for kind in ("classic", "connect")}
    with EmbeddedBroker(tls=True, sasl={"alice": "secret"}, topics=topics) as broker:
        yield broker


@pytest.mark.parametrize("method", quick(SECURED))
def test_secured_broker(
    method: WriteMethod, spark: SparkSession, secured: EmbeddedBroker, tmp_path: Path
) -> None:
    file, options = write_trust_file(secured, tmp_path)
    spark.sparkContext.addFile(str(file))
    topic = f"classic-{method.name}"
    write = Write(spark, secured.bootstrap_servers, topic, tmp_path, options)
    check_result(method, run_method(method, write), secured, topic)


def selected_names(request: pytest.FixtureRequest) -> set[str]:
    """Return the names of the methods that selected tests use with Spark Connect."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function))
    methods = (
        item.callspec.params["method"] for item in items if "connect_errors" in item.fixturenames
    )
    return {method.name for method in methods if isinstance(method, WriteMethod)}


@pytest.fixture(scope="module")
def connect_errors(
    request: pytest.FixtureRequest,
    embedded_broker: EmbeddedBroker,
    secured: EmbeddedBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, str | None]:
    """Return the error of each method with Spark Connect, which requires a subprocess."""
    names = sorted(selected_names(request))
    for method in (*METHODS, *CONNECT):
        embedded_broker.create_topic(f"connect-{method.name}", 2)
    folder, folder_for_files = (
        tmp_path_factory.mktemp("connect"),
        tmp_path_factory.mktemp("shipped"),
    )
    file, options = write_trust_file(secured, folder_for_files)
    secured_arguments = {
        "servers": secured.bootstrap_servers,
        "options": options,
        "file": str(file),
    }
    servers, arguments = embedded_broker.bootstrap_servers, json.dumps(secured_arguments)
    command = ("-m", "tests.spark.write_methods.connect_child", folder, servers, arguments, *names)
    done = run_python(*command, timeout_s=CONNECT_S)
    assert done.returncode == 0, done.stderr[-3000:]
    errors: dict[str, str | None] = json.loads((folder / "errors.json").read_text())
    return errors


@pytest.mark.timeout(CONNECT_S)
@pytest.mark.parametrize("method", named((*METHODS, *CONNECT)))
def test_writes_all_rows_or_fails_with_spark_connect(
    method: WriteMethod, connect_errors: dict[str, str | None], embedded_broker: EmbeddedBroker
) -> None:
    if method.name == "stream-for-each-batch-twice" and not IDENTIFIES_RUNS:
        method = replace(method, rows=ROWS // 2)  # The second write of both batches is skipped.
    check_result(method, connect_errors[method.name], embedded_broker, f"connect-{method.name}")


@pytest.mark.timeout(CONNECT_S)
@pytest.mark.parametrize("method", named(SECURED))
def test_secured_broker_with_spark_connect(
    method: WriteMethod, connect_errors: dict[str, str | None], secured: EmbeddedBroker
) -> None:
    """The file is distributed with addArtifact."""
    check_result(method, connect_errors[method.name], secured, f"connect-{method.name}")
