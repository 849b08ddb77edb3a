"""Clients that are commands: kcat, and the tools of Kafka."""

import re
import subprocess
from functools import partial
from typing import Any

from tools.compat.clients.checks import (
    COUNT,
    VALUES,
    ClientRow,
    Task,
    consumes,
    expect,
    fill,
    joins,
    new_topic,
    produces,
)
from tools.support.jars import KAFKA
from tools.support.java import command, run_tool
from tools.support.readers import by_console_consumer

_TEXT = "\n".join(VALUES) + "\n"
_TOOLS = "org.apache.kafka.tools"


def run_command(line: list[str], text: str = "", **options: Any) -> str:
    """Run a command and return its output.

    Raises:
        AssertionError: the command failed.
    """
    done: subprocess.CompletedProcess[str] = subprocess.run(
        line,
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
        encoding="utf-8",
    )
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _kcat(servers: str, *arguments: str, text: str = "") -> str:
    return run_command(["kcat", "-b", servers, *arguments], text)


def _kafka_tool(tool: str, servers: str, *arguments: str) -> str:
    """Run a tool of Kafka and return its output."""
    return run_tool(f"{_TOOLS}.{tool}", "--bootstrap-server", servers, *arguments).decode()


def _kcat_version() -> str:
    version, library = re.findall(r"\d+\.\d+[.\d]*", run_command(["kcat", "-V"]))[:2]
    return f"{version}, librdkafka {library}"


def _kcat_send(servers: str, topic: str, codec: str) -> None:
    _kcat(servers, "-P", "-t", topic, "-z", codec, text=_TEXT)


def _kcat_read(servers: str, topic: str, group: str | None = None) -> list[str]:
    options = ["-e", "-q", "-X", "check.crcs=true", "-X", "auto.offset.reset=earliest"]
    place = ["-G", group, topic] if group else ["-C", "-t", topic]
    return _kcat(servers, *options, *place).split()


def _kcat_topics(servers: str) -> None:
    topic = fill(servers)
    expect(f'"{topic}" with 3 partitions' in _kcat(servers, "-L", "-t", topic), True)


KCAT = ClientRow(
    name="kcat",
    read_version=_kcat_version,
    checks={
        Task.PRODUCE: produces(_kcat_send),
        Task.CONSUME: consumes(_kcat_read),
        Task.GROUPS: joins(_kcat_read),
        Task.TOPICS: _kcat_topics,
    },
)


def _console_send(servers: str, topic: str, _: str) -> None:
    arguments = ["--bootstrap-server", servers, "--topic", topic]
    run_command(command(f"{_TOOLS}.ConsoleProducer", arguments), _TEXT)


def _console_read(servers: str, topic: str, group: str | None = None) -> list[str]:
    if group is None:
        records = by_console_consumer(servers, topic)
        return [(record.value or b"").decode() for record in records]
    arguments = ["--topic", topic, "--group", group, "--from-beginning"]
    arguments += ["--max-messages", str(COUNT), "--timeout-ms", "30000"]
    return _kafka_tool("consumer.ConsoleConsumer", servers, *arguments).split()


def _describe_group(servers: str, topic: str) -> None:
    tool = "consumer.group.ConsumerGroupCommand"
    described = _kafka_tool(tool, servers, "--describe", "--group", topic)
    lags = [line.split()[5] for line in described.splitlines() if topic in line]
    expect(lags, ["0", "0", "0"])


def _topic_command(servers: str) -> None:
    topic = new_topic()
    use = partial(_kafka_tool, "TopicCommand", servers)
    use("--topic", topic, "--create", "--partitions", "2", "--replication-factor", "3")
    use("--topic", topic, "--alter", "--partitions", "4")
    described = use("--topic", topic, "--describe")
    expect("PartitionCount: 4" in described and "ReplicationFactor: 3" in described, True)
    use("--topic", topic, "--delete")
    expect(topic in use("--list"), False)


CONSOLE = ClientRow(
    name="Java: ConsoleProducer, ConsoleConsumer, TopicCommand, ConsumerGroupCommand",
    read_version=lambda: KAFKA.name.removeprefix("kafka-"),
    checks={
        Task.PRODUCE: produces(_console_send, ("none",)),
        Task.CONSUME: consumes(_console_read),
        Task.GROUPS: joins(_console_read, _describe_group),
        Task.TOPICS: _topic_command,
    },
)


def _performance(servers: str, *more: str) -> None:
    arguments = ["--topic", new_topic(), "--num-records", str(COUNT), "--record-size", "100"]
    arguments += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={servers}"]
    printed = run_tool(f"{_TOOLS}.ProducerPerformance", *arguments, *more).decode()
    expect(f"{COUNT} records sent" in printed, True)


def _performance_in_transactions(servers: str) -> None:
    name = f"id-{new_topic()}"
    _performance(servers, "--transactional-id", name, "--transaction-duration-ms", "50")
    use = partial(_kafka_tool, "TransactionsCommand", servers)
    expect(name in use("list"), True)
    expect("CompleteCommit" in use("describe", "--transactional-id", name), True)


PERFORMANCE = ClientRow(
    name="Java: ProducerPerformance, TransactionsCommand",
    read_version=lambda: KAFKA.name.removeprefix("kafka-"),
    checks={Task.PRODUCE: _performance, Task.TRANSACTIONS: _performance_in_transactions},
)
