"""What users import: `from spark_kafka_sink import ...`."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest

import spark_kafka_sink
from spark_kafka_sink.common import errors
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.producer.dead_letter import SINK_CLASS
from spark_kafka_sink.producer.row_errors import RowError

NAMES = [name for name in spark_kafka_sink.__all__ if name != "__version__"]
HEAVY = {"kio", "numpy", "pyarrow", "pyspark", "rich", "typer"}


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_is_cheap() -> None:
    assert run(f"import sys, spark_kafka_sink; print({HEAVY} & set(sys.modules))") == "set()\n"


def test_errors_and_the_broker_are_loaded_without_spark() -> None:
    code = (
        "import sys; from spark_kafka_sink import ConfigError; "
        f"assert not {HEAVY} & set(sys.modules); "
        "from spark_kafka_sink import DeliveryReport, EmbeddedBroker; "
        "print('pyspark' in sys.modules)"
    )
    assert run(code) == "False\n"


def test_a_plain_write_waits_for_no_cryptography() -> None:
    code = (
        "import sys, spark_kafka_sink.spark.datasource, spark_kafka_sink.spark.writer; "
        "from spark_kafka_sink.client.client import Client; "
        "from spark_kafka_sink.config.model import ProducerConfig; "
        "Client(ProducerConfig.parse({'kafka.bootstrap.servers': 'h:9092'})).close(); "
        "print({'cryptography', 'spark_kafka_sink.security.tls'} & set(sys.modules))"
    )
    assert run(code) == "set()\n"


def test_workers_that_plan_and_commit_start_without_a_producer() -> None:
    found = run(
        "import sys, spark_kafka_sink.spark.datasource, spark_kafka_sink.spark.writer; "
        "print(sorted(name for name in sys.modules if name.startswith('spark_kafka_sink.') "
        "and name.split('.')[1] in {'client', 'admin', 'exactly_once'}))"
    )
    assert found == "[]\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_the_one_that_a_type_checker_sees(name: str) -> None:
    tree = ast.parse(Path(spark_kafka_sink.__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    (module,) = [n.module for n in imports if name in [alias.name for alias in n.names]]
    assert getattr(spark_kafka_sink, name) is getattr(import_module(module or ""), name)


def test_every_error_is_there() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, KafkaProdError)
    }
    assert found == {name for name in NAMES if name.endswith("Error")}


def test_all_names_are_listed() -> None:
    assert set(NAMES) < set(dir(spark_kafka_sink))


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = getattr(spark_kafka_sink, "Noth" + "ing")


@pytest.mark.parametrize(
    "name", sorted({flaw.error_class for flaw in RowError if flaw} | {SINK_CLASS.decode()})
)
def test_the_classes_that_dead_letters_name_can_be_imported(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert module == "spark_kafka_sink"
    assert isinstance(getattr(import_module(module), attribute), type)


def test_the_version_is_that_of_the_distribution() -> None:
    assert spark_kafka_sink.__version__ == version("spark-kafka-sink")


def test_type_checkers_are_told_that_it_is_typed() -> None:
    assert (files(spark_kafka_sink) / "py.typed").is_file()


def test_a_type_checker_sees_a_users_program_with_every_name() -> None:
    """mypy runs over that file, as over every other of the tests."""
    tree = ast.parse(Path(__file__).with_name("users_program.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    (names,) = [n.names for n in imports if n.module == "spark_kafka_sink"]
    assert [alias.name for alias in names] == sorted(spark_kafka_sink.__all__)


def test_every_module_says_in_a_sentence_what_it_is() -> None:
    modules = Path(str(files(spark_kafka_sink))).rglob("*.py")
    found = {file: ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "" for file in modules}
    assert [file.name for file, text in found.items() if len(text) < 10] == []
