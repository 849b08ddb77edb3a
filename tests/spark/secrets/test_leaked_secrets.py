"""Plans, event log, checkpoints, logs and reports of a job contain no secrets.

The tests search all files of a Spark application with logs at DEBUG level, after successful and
failed writes. `format("kafka")` with the same options is the reference.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.spark.secrets.plan import CONSOLE, EVENTS, LOG, SHOWN, Plan
from tests.spark.secrets.planted_secrets import (
    PASSWORD,
    USER,
    PlantedSecrets,
    find,
    plant,
    with_references,
)
from tools.support.jars import SPARK_SINK, ensure

OURS, JVM = "kafkaprod", "kafka"
ROOT = Path(__file__).resolve().parents[3]
FAILING = {"wrong batch", "wrong stream"}
OUR_FAILING = FAILING | {"mistyped", "wrong call", "mistyped call"}
REDACTION = ROOT / "conf" / "spark-redaction.conf"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tls=True, sasl={USER: PASSWORD}, topics={"t": 2}) as kafka:
        yield kafka


class Run:
    """A completed child process and the folder with all of its files."""

    def __init__(self, folder: Path, plan: Plan, planted: PlantedSecrets) -> None:
        self.folder = folder / "run"
        self.folder.mkdir()
        self._marks = planted.marks
        file = folder / "plan.json"
        plan.write(file)
        module = "tests.spark.secrets.writing_child"
        with (self.folder / CONSOLE).open("wb") as console:
            subprocess.run(
                [sys.executable, "-m", module, str(self.folder), str(file)],
                stdout=console,
                stderr=subprocess.STDOUT,
                env=os.environ | {"PYTHONPATH": str(ROOT)} | planted.environment,
                cwd=ROOT,
                check=True,
                timeout=600,
            )
        self.errors: dict[str, str] = json.loads((self.folder / "errors.json").read_text())

    @property
    def events(self) -> Path:
        """Return the event log."""
        (file,) = (self.folder / EVENTS).iterdir()
        return file

    def found(self) -> dict[str, set[str]]:
        """Return the files that contain each secret."""
        return find(self.folder, self._marks)

    def check_complete(self) -> None:
        """Check that the searched files exist."""
        assert "SparkListenerApplicationEnd" in self.events.read_text()
        assert " DEBUG " in (self.folder / LOG).read_text(errors="replace")
        assert (self.folder / "checkpoint-good" / "commits" / "0").exists(), self.errors
        assert "numInputRows" in (self.folder / SHOWN).read_text()


def plan(secrets: PlantedSecrets, kind: str = OURS) -> Plan:
    jars = {"spark.jars": ",".join(map(str, ensure(SPARK_SINK).paths()))}
    noisy = {"kafka.debug": "all", "kafka.statistics.interval.ms": "100"}
    ours = kind == OURS
    return Plan(
        format=kind,
        logins=[login | noisy for login in secrets.logins] if ours else secrets.logins,
        wrong=secrets.wrong,
        mistyped=secrets.mistyped,
        settings={} if ours else jars,
    )


def settings_of(file: Path) -> dict[str, str]:
    lines = [line.split(None, 1) for line in file.read_text().splitlines()]
    return {words[0]: words[1].strip() for words in lines if words and words[0][0] != "#"}


def test_no_literal_secret_is_leaked(secured: EmbeddedBroker, tmp_path: Path) -> None:
    secrets = plant(secured, tmp_path, "t")
    run = Run(tmp_path, plan(secrets), secrets)
    run.check_complete()
    assert run.errors.keys() == OUR_FAILING
    for kind in ("batch", "call"):
        assert "AuthenticationError" in run.errors[f"wrong {kind}"]
    assert "kafka.sasl.pasword" in run.errors["mistyped"]
    assert "kafka.sasl.pasword" in run.errors["mistyped call"]
    # Spark 4.1 shows the redacted options of a stream; later versions do not show options.
    assert run.found().keys() <= ({"key"} if pyspark.__version__ < "4.2" else set())


def test_spark_kafka_sink_leaks_a_key(secured: EmbeddedBroker, tmp_path: Path) -> None:
    """The search detects leaks, and kafkaprod on Spark 4.1 leaks no more than Spark's sink."""
    secrets = plant(secured, tmp_path, "t")
    run = Run(tmp_path, plan(secrets, JVM), secrets)
    run.check_complete()
    assert run.errors.keys() == FAILING
    assert "key" in run.found()


def test_referenced_secrets_are_not_leaked(secured: EmbeddedBroker, tmp_path: Path) -> None:
    """Including SQL statements, which Spark logs, and a table with stored options."""
    secrets = with_references(plant(secured, tmp_path, "t"), tmp_path)
    folder = tmp_path / "run"
    secrets.logins[1]["reportPath"] = str(folder / "report.json")
    secrets.logins[1]["metrics.prometheus.textfile"] = str(folder / "metrics.prom")
    run = Run(tmp_path, replace(plan(secrets), sql=True), secrets)
    run.check_complete()
    assert run.errors.keys() == OUR_FAILING
    assert "env:LEAK_JAAS" in (folder / SHOWN).read_text()
    assert "persisted" in (folder / "report.json").read_text()
    assert (folder / "metrics.prom").stat().st_size
    assert run.found() == {}


def test_spark_connect_requests_contain_only_references(
    secured: EmbeddedBroker, tmp_path: Path
) -> None:
    """Spark Connect writes every request to the event log, with all options."""
    secrets = with_references(plant(secured, tmp_path, "t"), tmp_path)
    run = Run(tmp_path, replace(plan(secrets), sql=True, connect=True), secrets)
    run.check_complete()
    assert "env:LEAK_JAAS" in run.events.read_text()
    assert run.errors.keys() == OUR_FAILING
    assert run.found() == {}


def test_shipped_settings_redact_spark_connect_logs(
    secured: EmbeddedBroker, tmp_path: Path
) -> None:
    secrets = plant(secured, tmp_path, "t")
    settings = settings_of(REDACTION)
    run = Run(tmp_path, replace(plan(secrets), connect=True, settings=settings), secrets)
    run.check_complete()
    assert "kafka.sasl.jaas.config" in (run.folder / SHOWN).read_text() + run.events.read_text()
    leaks = run.found()
    leaks.pop("mistyped option", None)  # this name does not look like that of a secret
    assert leaks == {}
