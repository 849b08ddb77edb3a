"""All commands of `kafkaprod`."""

import pytest
from typer.testing import CliRunner

from spark_kafka_sink.cli.main import app
from spark_kafka_sink.cli.transactions_command import transactions

COMMANDS = [command.callback.__name__ for command in app.registered_commands if command.callback]
COMMANDS += [
    f"transactions {command.name or command.callback.__name__}"
    for command in transactions.registered_commands
    if command.callback
]
CONNECTION = ["--bootstrap-servers", "localhost:9"]
ARGUMENTS = {
    "broker": [],
    "demo": [],
    "doctor": CONNECTION,
    "read": ["events", "--follow", *CONNECTION],
    "report": ["report.json"],
    "verify": ["report.json", *CONNECTION],
}
STEPS = {
    "broker": "broker_command.EmbeddedBroker",
    "demo": "demo_command.run_demo",
    "doctor": "doctor_command.Doctor.examine",
    "report": "report_command.DeliveryReport.read_all",
}
"""What is interrupted; all other commands are interrupted while they connect."""


@pytest.mark.parametrize("command", COMMANDS)
def test_interrupted_command_exits_with_130(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_args: object, **_options: object) -> None:
        raise KeyboardInterrupt

    step = STEPS.get(command, "kafka_options.connect")
    monkeypatch.setattr(f"spark_kafka_sink.cli.{step}", interrupt)
    arguments = ARGUMENTS.get(command, ["--prefix", "orders", *CONNECTION])
    result = CliRunner().invoke(app, [*command.split(), *arguments])
    assert result.exit_code == 130, result.output
