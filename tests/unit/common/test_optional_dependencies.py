"""Dependencies of the package and its extras, and errors if one is missing."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from spark_kafka_sink.cli.entry import run
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import (
    EXTRAS,
    import_extra,
    install_command,
    require_extra,
)
from spark_kafka_sink.report.delivery_report import DeliveryReport

ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = {module for extra in EXTRAS.values() for module in extra.modules} - {"requests"}
"""What the package does without. Java's console and boto3 know `requests`: it may be anywhere."""
BY_EXTRAS = (
    *("cli", "spark", "report.plots", "pytest_plugin", "report.display.tables"),
    *("report.export.opentelemetry", "report.export.prometheus"),
    *("kafka.security.tokens.client_credentials", "kafka.security.tokens.msk_iam"),
    *("kafka.security.sasl.gssapi", "formats.protobuf.protobuf_printer"),
)
"""Modules that an extra is for."""
WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({sorted(LIBRARIES | {'py4j'})}))\n"


def run_without_extras(code: str) -> str:
    command = [sys.executable, "-c", WITHOUT + code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_extra_has_a_place_and_a_purpose() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [*EXTRAS, "dev", "test-all"] == [*project["optional-dependencies"]]


def test_package_works_without_extras() -> None:
    code = f"""
from importlib import import_module
from pkgutil import walk_packages
import spark_kafka_sink as package
modules = walk_packages(package.__path__, "spark_kafka_sink.", onerror=lambda name: None)
names = [m.name for m in modules if not m.name.partition(".")[2].startswith({BY_EXTRAS})]
for name in names:
    import_module(name)
print(len(names))
"""
    assert int(run_without_extras(code)) > 200


def test_help_and_other_names_work_without_pyspark() -> None:
    code = """
import pydoc, spark_kafka_sink as package
assert "EmbeddedBroker" in dir(package) and "register" not in dir(package)
print(pydoc.plain(pydoc.render_doc(package))[:2000])
"""
    assert 'df.write.format("kafkaprod")' in run_without_extras(code)


@pytest.mark.parametrize(
    "imported", ["spark_kafka_sink import register", "pyspark_kafkaprod import *"]
)
def test_missing_pyspark_error(imported: str) -> None:
    code = f"try:\n    from {imported}\nexcept ImportError as error:\n    print(error)"
    output = run_without_extras(code)
    assert "needs PySpark, which is not installed in this Python" in output
    assert install_command("spark") in output


def test_command_line_reports_missing_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as caught:
        run()
    message = str(caught.value)  # which Python prints to stderr with exit status 1
    assert message.startswith(
        "kafkaprod: the command line needs a library that is not installed: typer"
    )
    assert install_command("cli") in message


def test_missing_pandas_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("plots"))):
        DeliveryReport().to_pandas()


def test_only_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r": pandas\."):
        require_extra("plots", "option x")


def test_module_of_an_extra() -> None:
    assert import_extra("plots", "matplotlib.figure", "the test").Figure


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'spark-kafka-sink[cli]'"),
        ({"url": "https://x.test/a.whl"}, "pip install 'spark-kafka-sink[cli]'"),
        (
            {"url": "file:///gone/checkout", "dir_info": {}},
            "pip install 'spark-kafka-sink[cli]' (docs/install.md)",
        ),
        ({"url": "file:///gone/s-0.1.0.whl"}, "pip install 's-0.1.0.whl[cli]'"),
        ({"url": "file://{here}/a%20folder", "dir_info": {}}, "pip install '{here}/a folder[cli]'"),
        (
            {"url": "file://{here}/a%20folder", "dir_info": {"editable": True}},
            "pip install -e '{here}/a folder[cli]'",
        ),
    ],
    ids=["index", "web", "folder gone", "wheel gone", "folder", "editable"],
)
def test_install_command_matches_the_package_source(
    origin: dict[str, object] | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a folder").mkdir()
    metadata = tmp_path / "spark_kafka_sink-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: spark-kafka-sink\nVersion: 0.1.0\n")
    if origin is not None:
        record = json.dumps(origin).replace("{here}", str(tmp_path))
        (metadata / "direct_url.json").write_text(record)
    monkeypatch.syspath_prepend(tmp_path)
    assert install_command("cli") == command.replace("{here}", str(tmp_path))
