"""Commands without a reachable Kafka."""

import pytest
from typer.testing import CliRunner

from spark_kafka_sink.cli.main import app
from tests.support.servers import closed_port

TRANSACTIONS = ["list", "describe", "commit", "abort"]


@pytest.mark.parametrize(
    "command",
    [["demo"], *(["transactions", transaction, "--prefix", "p"] for transaction in TRANSACTIONS)],
)
def test_closed_port_fails_within_the_timeout(command: list[str]) -> None:
    closed = closed_port()
    where = ["--bootstrap-servers", closed, "--timeout", "0.3"]
    ended = CliRunner().invoke(app, [*command, *where])
    assert ended.exit_code == 1
    assert ended.output.startswith(f"kafkaprod: {closed}: Connection refused.")
