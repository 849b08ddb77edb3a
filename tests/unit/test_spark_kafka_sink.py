"""The public API: `from spark_kafka_sink import ...`, also on systems without Unix modules."""

import ast
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import spark_kafka_sink
from spark_kafka_sink.common import errors
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError
from spark_kafka_sink.producer.bad_rows.dead_letter import SINK_CLASS
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from tests.support.python import run_python

NAMES = [name for name in spark_kafka_sink.__all__ if name != "__version__"]
HEAVY = {"kio", "numpy", "pyarrow", "pyspark", "rich", "typer"}

CODE = """
import importlib, mmap, os, pkgutil, sys
sys.modules["fcntl"] = sys.modules["resource"] = None
for module, name in ((os, "O_NOFOLLOW"), (os, "O_CLOEXEC"), (os, "pread"), (mmap, "PROT_READ")):
    delattr(module, name)
import spark_kafka_sink
for module in pkgutil.walk_packages(spark_kafka_sink.__path__, "spark_kafka_sink."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name != "gssapi":  # An extra that needs a C library.
            raise
print(len(sys.modules))
"""
PLAN = (
    "from pyspark.sql.types import StringType, StructField, StructType; "
    "from pyspark_kafkaprod import DefaultSource; "
    "options = {'kafka.bootstrap.servers': 'h:1', 'topic': 't', 'preflight': 'off'}; "
    "schema = StructType([StructField('value', StringType())]); "
    "writer = DefaultSource(options).writer(schema, False)"
)
"""What a worker that plans runs, without the brokers."""
REPORT = ("report.export", "report.columnar", "report.packed_report")
SINK: Any = spark_kafka_sink
KAFKA = {"kafka.bootstrap.servers": "h:9092", "topic": "t"}
FRAME = SimpleNamespace(mapInArrow=None, schema=None, isStreaming=False)
CALLS: dict[str, list[Callable[[Any], object]]] = {
    "EmbeddedBroker": [lambda other: SINK.EmbeddedBroker(topics=other)],
    "advise": [SINK.advise],
    "assert_written": [lambda other: SINK.assert_written(other, other)],
    "error_of": [lambda other: SINK.error_of(other or "text")],
    "last_report": [
        lambda other: SINK.last_report(other or 1),
        lambda other: SINK.last_report(spark=other or 1),
    ],
    "micro_batch_writer": [
        SINK.micro_batch_writer,
        lambda other: SINK.micro_batch_writer({**KAFKA, other: "x"}),
        lambda _: SINK.micro_batch_writer({**KAFKA, "topic": None}),
    ],
    "progress": [
        lambda other: SINK.progress(other or 1).__enter__(),
        lambda _: SINK.progress(interval_s=0).__enter__(),
        lambda other: SINK.progress(show=other or 1).__enter__(),
    ],
    "read_records": [
        lambda other: SINK.read_records(other, **KAFKA),
        lambda _: SINK.read_records("t", **{**KAFKA, "topic": None}),
        lambda _: SINK.read_records("t", limit=-1, **KAFKA),
    ],
    "register": [SINK.register],
    "repartition_by_kafka_partition": [
        lambda other: SINK.repartition_by_kafka_partition(other, KAFKA),
        lambda other: SINK.repartition_by_kafka_partition(other, other),
    ],
    "summarize": [SINK.summarize],
    "warm_up": [SINK.warm_up],
    "write": [
        lambda other: SINK.write(other, KAFKA),
        lambda _: SINK.write(FRAME, {**KAFKA, "topic": None}),
    ],
}


def run(code: str) -> str:
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_is_cheap() -> None:
    assert run(f"import sys, spark_kafka_sink; print({HEAVY} & set(sys.modules))") == "set()\n"


def test_errors_and_the_broker_are_loaded_without_spark() -> None:
    code = (
        f"import sys; from spark_kafka_sink import ConfigError; assert not {HEAVY} & "
        "set(sys.modules); from spark_kafka_sink import DeliveryReport, EmbeddedBroker; "
        "print('pyspark' in sys.modules)"
    )
    assert run(code) == "False\n"


def test_plain_write_does_not_load_cryptography() -> None:
    code = (
        "import sys, spark_kafka_sink.spark.datasource; import "
        "spark_kafka_sink.spark.writers.task_writer; from spark_kafka_sink.kafka.client.client "
        "import Client; from spark_kafka_sink.config.sink_config import ProducerConfig; "
        "Client(ProducerConfig.parse({'kafka.bootstrap.servers': 'h:9092'})).close(); "
        "print({'cryptography', 'spark_kafka_sink.kafka.security.tls'} & set(sys.modules))"
    )
    assert run(code) == "set()\n"


def loaded(code: str) -> set[str]:
    """Return what a new process imports: other packages, and all modules of this package."""
    printed = run(f"import sys; {code}; print(*sys.modules)").split()
    return {
        name if name.startswith("spark_kafka_sink.") else name.partition(".")[0] for name in printed
    }


def ours(*names: str) -> set[str]:
    """Return the full names of packages of this package, which must exist."""
    packages = {f"spark_kafka_sink.{name}" for name in names}
    assert all(map(find_spec, packages))
    return packages


CLIENT = ours(
    "kafka.client", "kafka.blocking", "kafka.admin", "kafka.logs", "kafka.records", "kafka.protocol"
)
PRODUCING = CLIENT | ours("exactly_once", "producer")


@pytest.fixture(scope="module")
def pyspark() -> set[str]:
    """Return the heavy libraries that PySpark imports; NumPy in Spark 4.1.0."""
    return loaded("import pyspark.sql.datasource") & HEAVY


def test_format_lookup_in_a_worker_loads_one_name(pyspark: set[str]) -> None:
    modules = loaded("import pyspark_kafkaprod; assert pyspark_kafkaprod.DefaultSource.name()")
    assert modules & (HEAVY | ours("config", "report") | PRODUCING) == pyspark


def test_planning_worker_loads_no_producer_and_no_report_columns(pyspark: set[str]) -> None:
    assert loaded(PLAN) & (HEAVY | PRODUCING | ours(*REPORT)) == pyspark


def test_planning_worker_queries_brokers_without_records_and_transactions() -> None:
    modules = run("import sys, spark_kafka_sink.diagnostics.preflight; print(*sys.modules)").split()
    assert "spark_kafka_sink.kafka.admin.transaction_admin" not in modules
    assert not [name for name in modules if name.startswith("spark_kafka_sink.kafka.records")]
    assert "crc32c" not in modules


def test_task_loads_only_the_libraries_that_it_uses() -> None:
    code = (
        "import spark_kafka_sink.spark.writers.task_writer; import "
        "spark_kafka_sink.spark.rows.rows_from_arrow, spark_kafka_sink.producer.session; "
        "from spark_kafka_sink.kafka.client.channel.host_names import resolve; "
        "resolve('localhost', 9092)"
    )
    libraries = {"cramjam", "lz4", "zstandard", "cryptography", "encodings.idna", "pandas"}
    logins = {"spark_kafka_sink.config.security.sasl"}
    assert not (libraries | logins) & set(run(f"import sys; {code}; print(*sys.modules)").split())


def test_committing_worker_loads_no_arrow(pyspark: set[str]) -> None:
    pickled = run(f"import pickle; {PLAN}; print(pickle.dumps(writer).hex())").strip()
    code = (
        f"import pickle; writer = pickle.loads(bytes.fromhex('{pickled}')); from spark_kafka_sink "
        "import DeliveryReport; from spark_kafka_sink.spark.writers.commit_messages import "
        "CommitMessage; writer.commit([CommitMessage(DeliveryReport())])"
    )
    assert loaded(code) & (HEAVY | PRODUCING) == pyspark


@pytest.mark.parametrize("name", NAMES)
def test_names_match_those_of_type_checkers(name: str) -> None:
    tree = ast.parse(Path(spark_kafka_sink.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    (module,) = [n.module for n in imports if name in [alias.name for alias in n.names]]
    assert getattr(spark_kafka_sink, name) is getattr(import_module(module or ""), name)


def test_every_error_is_public() -> None:
    error_names = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, KafkaProdError)
    }
    assert error_names == {name for name in NAMES if name.endswith("Error")}


def test_all_names_are_listed() -> None:
    assert set(NAMES) < set(dir(spark_kafka_sink))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        _ = getattr(spark_kafka_sink, "Noth" + "ing")


@pytest.mark.parametrize(
    "name", sorted({error.error_class for error in RowError if error} | {SINK_CLASS.decode()})
)
def test_classes_in_dead_letters_can_be_imported(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert module == "spark_kafka_sink"
    assert isinstance(getattr(import_module(module), attribute), type)


def test_version_matches_the_distribution() -> None:
    assert spark_kafka_sink.__version__ == version("spark-kafka-sink")


def test_package_is_marked_as_typed() -> None:
    assert (files(spark_kafka_sink) / "py.typed").is_file()


def test_users_program_uses_every_name() -> None:
    """mypy checks that file like all other tests."""
    tree = ast.parse(Path(__file__).with_name("users_program.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    (names,) = [n.names for n in imports if n.module == "spark_kafka_sink"]
    assert [alias.name for alias in names] == sorted(spark_kafka_sink.__all__)


def test_every_module_has_a_docstring() -> None:
    modules = Path(str(files(spark_kafka_sink))).rglob("*.py")
    docstrings = {
        file: ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "" for file in modules
    }
    assert [file.name for file, text in docstrings.items() if len(text) < 10] == []


class Other:
    """An object of neither PySpark nor this package."""


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("other", [None, Other()], ids=["None", "another object"])
def test_wrong_argument_is_named(name: str, other: object) -> None:
    for call in CALLS[name]:
        with pytest.raises(ConfigError, match=rf"{name}\(.*(needs|is|:)"):
            call(other)


def test_every_public_function_validates_its_arguments() -> None:
    functions = {name for name in NAMES if not isinstance(getattr(spark_kafka_sink, name), type)}
    assert CALLS.keys() - {"EmbeddedBroker"} == functions


def opens_text_without_encoding(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    if isinstance(call.func, ast.Name) and call.func.id == "open":
        mode = ast.unparse(call.args[1]) if len(call.args) > 1 else options.get("mode", "")
        is_text = "b" not in mode
    else:
        is_text = name in {"read_text", "write_text"} or (
            name in {"run", "Popen", "check_output"} and options.get("text") == "True"
        )
    return is_text and "encoding" not in options and "distribution" not in ast.unparse(call.func)


def test_every_text_file_has_an_encoding() -> None:
    """PLW1514 of ruff does not recognize the paths that are the result of an expression."""
    package = Path(str(files("spark_kafka_sink")))
    calls = [
        f"{path}:{node.lineno}"
        for path in (*package.rglob("*.py"), *(package.parent / "tools").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and opens_text_without_encoding(node)
    ]
    assert calls == []


@pytest.mark.deep
def test_no_module_requires_unix_modules() -> None:
    done = run_python("-c", CODE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300
