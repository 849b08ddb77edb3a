"""Commands whose arguments or records contain characters that the locale's encoding lacks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.support.producer_writes import produce, rows
from tests.support.python import run_python

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

C = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
LATIN_1 = {"LC_ALL": "C.UTF-8", "PYTHONIOENCODING": "latin-1:strict", "COLUMNS": "200"}
TEXT = 'größe "Пример" 😀'
NOT_ENCODED = (
    "contains characters that the locale's encoding ascii does not have. "
    "Set LC_ALL to a UTF-8 locale, such as C.UTF-8.\n"
)


def run_command(variables: dict[str, str], *words: str) -> CompletedProcess[str]:
    """Run `kafkaprod` without any other environment variables."""
    arguments = ("-m", "spark_kafka_sink", *words)
    return run_python(*arguments, env=variables, encoding="latin-1", timeout_s=60)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["read", "größe"], r"gr\u00f6\u00dfe"),
        (["read", "größe", "--json"], r"gr\u00f6\u00dfe"),
        (["doctor", "-o", "kafka.client.id=grün"], "kafka.client.id"),
        (["demo", "--topic", "größe"], r"gr\u00f6\u00dfe"),
    ],
)
def test_undecoded_argument_is_named(
    embedded_broker: EmbeddedBroker, words: list[str], name: str
) -> None:
    ended = run_command(C, *words, "--bootstrap-servers", embedded_broker.bootstrap_servers)
    assert ended.returncode == 1
    assert ended.stderr.endswith(f"kafkaprod: argument {name} {NOT_ENCODED}")
    assert "Traceback" not in ended.stderr


def test_undecoded_path_is_read(tmp_path: Path) -> None:
    report = tmp_path / "ü.json"
    report.write_text("{}")
    assert "not a delivery report" in run_command(C, "report", str(report)).stderr


def test_doctor_escapes_what_it_cannot_print(embedded_broker: EmbeddedBroker) -> None:
    options = ("kafka.security.protocol=SSL", "kafka.ssl.truststore.location=/no/中.pem")
    words = [word for option in options for word in ("-o", option)]
    for variables, escaped in ((C, r"/no/\ufffd\ufffd\ufffd.pem"), (LATIN_1, r"/no/\u4e2d.pem")):
        ended = run_command(
            variables, "doctor", "--bootstrap-servers", embedded_broker.bootstrap_servers, *words
        )
        assert ended.returncode == 1
        assert f"{escaped}, which cannot be read" in ended.stdout
        assert ended.stderr == ""


def test_records_are_escaped_and_json_is_valid(
    embedded_broker: EmbeddedBroker, unique_topic: str
) -> None:
    servers = embedded_broker.bootstrap_servers
    produce(servers, rows(unique_topic, [TEXT.encode()]))
    read = ("read", unique_topic, "--bootstrap-servers", servers)
    escaped = r"\u041f\u0440\u0438\u043c\u0435\u0440"
    line = run_command(LATIN_1, *read).stdout
    assert line.endswith(rf'value=größe "{escaped}" \ud83d\ude00' + "\n")
    assert json.loads(run_command(LATIN_1, *read, "--json").stdout)["value"] == TEXT
