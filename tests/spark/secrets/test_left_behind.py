"""A job's secrets are nowhere afterwards: not in plans, event log, checkpoint, logs, or reports.

Everything that a Spark application leaves is searched, with all logs at DEBUG, after writes that
succeed and writes that fail. `format("kafka")` with the same options is the measure.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.spark.secrets.plan import CONSOLE, EVENTS, LOG, SHOWN, Plan
from tests.spark.secrets.planted import PASSWORD, USER, Planted, find, plant, referred
from tools.support.jars import SPARK_SINK, ensure

if TYPE_CHECKING:
    from collections.abc import Iterator

OURS, JVM = "kafkaprod", "kafka"
ROOT = Path(__file__).resolve().parents[3]
FAILING = {"wrong batch", "wrong stream"}
REDACTION = ROOT / "conf" / "spark-redaction.conf"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tls=True, sasl={USER: PASSWORD}, topics={"t": 2}) as kafka:
        yield kafka


class Run:
    """A child that has written, and the folder that everything lies in."""

    def __init__(self, folder: Path, plan: Plan, planted: Planted) -> None:
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
        """The event log."""
        (file,) = (self.folder / EVENTS).iterdir()
        return file

    def found(self) -> dict[str, set[str]]:
        """The files that hold each secret."""
        return find(self.folder, self._marks)

    def check_complete(self) -> None:
        """What is searched is there: a search of nothing finds nothing."""
        assert "SparkListenerApplicationEnd" in self.events.read_text()
        assert " DEBUG " in (self.folder / LOG).read_text(errors="replace")
        assert (self.folder / "checkpoint-good" / "commits" / "0").exists(), self.errors
        assert "numInputRows" in (self.folder / SHOWN).read_text()


def plan(secrets: Planted, kind: str = OURS) -> Plan:
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


def test_no_literal_secret_is_left(secured: EmbeddedBroker, tmp_path: Path) -> None:
    secrets = plant(secured, tmp_path, "t")
    run = Run(tmp_path, plan(secrets), secrets)
    run.check_complete()
    assert run.errors.keys() == FAILING | {"mistyped"}
    assert "AuthenticationError" in run.errors["wrong batch"]
    assert "kafka.sasl.pasword" in run.errors["mistyped"]
    # Spark 4.1 shows the options of a stream, but for what it redacts; later ones don't.
    assert run.found().keys() <= ({"key"} if pyspark.__version__ < "4.2" else set())


def test_sparks_own_sink_leaves_a_key(secured: EmbeddedBroker, tmp_path: Path) -> None:
    """So the search finds what is there, and Spark 4.1's trace of ours is no more than this."""
    secrets = plant(secured, tmp_path, "t")
    run = Run(tmp_path, plan(secrets, JVM), secrets)
    run.check_complete()
    assert run.errors.keys() == FAILING
    assert "key" in run.found()


def test_secrets_that_are_referred_to_are_left_nowhere(
    secured: EmbeddedBroker, tmp_path: Path
) -> None:
    """Statements in SQL too, which Spark logs as they come, and a table that keeps its options."""
    secrets = referred(plant(secured, tmp_path, "t"), tmp_path)
    folder = tmp_path / "run"
    secrets.logins[1]["reportPath"] = str(folder / "report.json")
    secrets.logins[1]["metrics.prometheus.textfile"] = str(folder / "metrics.prom")
    run = Run(tmp_path, replace(plan(secrets), sql=True), secrets)
    run.check_complete()
    assert run.errors.keys() == FAILING | {"mistyped"}
    assert "env:LEAK_JAAS" in (folder / SHOWN).read_text()
    assert "persisted" in (folder / "report.json").read_text()
    assert (folder / "metrics.prom").stat().st_size
    assert run.found() == {}


def test_a_request_of_connect_holds_references_only(
    secured: EmbeddedBroker, tmp_path: Path
) -> None:
    """Spark Connect puts every request into the event log, with all options."""
    secrets = referred(plant(secured, tmp_path, "t"), tmp_path)
    run = Run(tmp_path, replace(plan(secrets), sql=True, connect=True), secrets)
    run.check_complete()
    assert "env:LEAK_JAAS" in run.events.read_text()
    assert run.errors.keys() == FAILING | {"mistyped"}
    assert run.found() == {}


def test_the_settings_that_are_shipped_redact_what_connect_logs(
    secured: EmbeddedBroker, tmp_path: Path
) -> None:
    secrets = plant(secured, tmp_path, "t")
    settings = settings_of(REDACTION)
    run = Run(tmp_path, replace(plan(secrets), connect=True, settings=settings), secrets)
    run.check_complete()
    assert "kafka.sasl.jaas.config" in (run.folder / SHOWN).read_text() + run.events.read_text()
    found = run.found()
    found.pop("mistyped option", None)  # nothing tells that this name means a secret
    assert found == {}
