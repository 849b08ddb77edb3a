"""`kafkaprod demo` as a subprocess, as in `make demo`."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from spark_kafka_sink import EmbeddedBroker
from tests.support.python import run_python

ROOT = Path(__file__).resolve().parents[2]
JAVA_NEEDED = "Java 17 or newer is needed to run Spark"


def demo(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = ("-m", "spark_kafka_sink", "demo", *arguments)
    return run_python(*command, cwd=ROOT, env={**os.environ, **(env or {})}, timeout_s=280)


@pytest.mark.quick
def test_demo_writes_and_reads_all_flights() -> None:
    done = demo()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "336,776 records read back, of 336,776 flights" in done.stdout
    assert re.search(r"records +│ 336,776 persisted ", done.stdout)
    assert len(re.findall(r"^  ok ", done.stdout, re.MULTILINE)) == 5
    assert "all checks passed" in done.stdout
    assert "WRONG" not in done.stdout
    assert done.stderr == "", "Spark's log is hidden"
    assert "\x1b" not in done.stdout, "escape sequences without a terminal"


def test_secured_kafka_with_a_properties_file(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    with EmbeddedBroker(tls=True, sasl={"alice": "Sentinel-7f3a9"}) as kafka:
        options = kafka.client_options("alice", prefix="")
        servers = options.pop("bootstrap.servers")
        lines = (f"{name}={escaped(value)}" for name, value in options.items())
        config.write_text("\n".join(lines))
        arguments = ("--limit", "300", "--bootstrap-servers", servers)
        done = demo(*arguments, "--config", str(config))
        rejected = demo(*arguments, "--config", str(config), "--option", "kafka.acks=most")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "300 records read back, of 300 flights" in done.stdout
    assert "all checks passed" in done.stdout
    assert "Sentinel-7f3a9" not in done.stdout + done.stderr
    assert rejected.returncode == 1
    assert "option kafka.acks is 'most'; allowed: all, -1, 0, 1" in rejected.stderr


def escaped(value: str) -> str:
    """Escape a value for a .properties file."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def test_extra_record_is_detected() -> None:
    with EmbeddedBroker(topics={"mixed": 2}) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce("mixed", b'{"year": 2013}', b"N14228")
        assert producer.flush(60) == 0
        done = demo(
            *("--limit", "300", "--topic", "mixed"),
            *("--bootstrap-servers", kafka.bootstrap_servers),
        )
    assert done.returncode == 1
    assert "301 records read back, of 300 flights" in done.stdout
    assert "1 record not found in the source" in done.stdout
    assert "the check failed" in done.stdout


def test_unreachable_broker_is_reported() -> None:
    with EmbeddedBroker() as kafka:
        gone = kafka.bootstrap_servers
    done = demo("--limit", "10", "--bootstrap-servers", gone)
    assert done.returncode == 1
    assert gone in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_missing_java_is_reported(tmp_path: Path, home: str | None) -> None:
    done = demo(env={"PATH": str(tmp_path), "JAVA_HOME": home or ""})
    assert done.returncode == 1
    assert done.stdout == ""
    assert JAVA_NEEDED in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_old_java_is_rejected(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("""#!/bin/sh\necho 'openjdk version "11.0.2" 2019-01-15' >&2\n""")
    java.chmod(0o755)
    done = demo(env={"PATH": str(tmp_path), "JAVA_HOME": ""})
    assert done.returncode == 1
    assert JAVA_NEEDED in done.stderr
    assert "is version 11" in done.stderr
