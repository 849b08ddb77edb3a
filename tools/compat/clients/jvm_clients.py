"""Checks of command line clients (Kafka's tools, kcat) and Spark's own connector."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.compat.clients.check import (
    CODECS,
    COUNT,
    VALUES,
    ClientRow,
    Task,
    expect,
    new_topic,
)
from tools.compat.clients.confluent import fill, values_in
from tools.support.jars import KAFKA
from tools.support.java import command, run_tool
from tools.support.readers import by_console_consumer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tools.compat.clients.check import Check


TEXT = "\n".join(VALUES) + "\n"
TOOLS = "org.apache.kafka.tools"


def _run(line: list[str], text: str = "") -> str:
    done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=90, check=False)
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr[-300:]}")
    return done.stdout


def _kcat(servers: str, *arguments: str, text: str = "") -> str:
    return _run(["kcat", "-b", servers, *arguments], text)


def _kcat_version() -> str:
    said = _run(["kcat", "-V"])
    version, library = re.findall(r"\d+\.\d+[.\d]*", said)[:2]
    return f"{version}, librdkafka {library}"


def _kcat_produces(servers: str) -> None:
    for codec in CODECS:
        topic = new_topic()
        _kcat(servers, "-P", "-t", topic, "-z", codec, text=TEXT)
        expect(values_in(servers, topic), list(VALUES))


def _kcat_consumes(servers: str) -> None:
    topic = fill(servers)
    printed = _kcat(servers, "-C", "-t", topic, "-e", "-q", "-X", "check.crcs=true")
    expect(sorted(printed.split()), sorted(VALUES))


def _kcat_groups(servers: str) -> None:
    topic = fill(servers)
    arguments = ["-X", "auto.offset.reset=earliest", "-e", "-q", "-G", topic, topic]
    for expected in (sorted(VALUES), []):
        expect(sorted(_kcat(servers, *arguments).split()), expected)


def _kcat_topics(servers: str) -> None:
    topic = fill(servers)
    expect(f'"{topic}" with 3 partitions' in _kcat(servers, "-L", "-t", topic), True)


def _console_produces(servers: str) -> None:
    topic = new_topic()
    arguments = ["--bootstrap-server", servers, "--topic", topic]
    _run(command(f"{TOOLS}.ConsoleProducer", arguments), TEXT)
    expect(values_in(servers, topic), list(VALUES))


def _console_consumes(servers: str) -> None:
    found = by_console_consumer(servers, fill(servers))
    expect(sorted((record.value or b"").decode() for record in found), sorted(VALUES))


def _console_groups(servers: str) -> None:
    topic = fill(servers)
    arguments = ["--bootstrap-server", servers, "--topic", topic, "--group", topic]
    arguments += ["--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "30000"]
    printed = run_tool(f"{TOOLS}.consumer.ConsoleConsumer", *arguments).decode()
    expect(sorted(printed.split()), sorted(VALUES))
    tool = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
    described = run_tool(tool, "--bootstrap-server", servers, "--describe", "--group", topic)
    lags = [line.split()[5] for line in described.decode().splitlines() if topic in line]
    expect(lags, ["0", "0", "0"])


def _topic_command(servers: str) -> None:
    topic, tool = new_topic(), f"{TOOLS}.TopicCommand"
    common = ["--bootstrap-server", servers, "--topic", topic]
    run_tool(tool, *common, "--create", "--partitions", "2", "--replication-factor", "3")
    run_tool(tool, *common, "--alter", "--partitions", "4")
    described = run_tool(tool, *common, "--describe").decode()
    expect("PartitionCount: 4" in described and "ReplicationFactor: 3" in described, True)
    run_tool(tool, *common, "--delete")
    expect(topic in run_tool(tool, "--bootstrap-server", servers, "--list").decode(), False)


def _performance(servers: str, *more: str) -> str:
    topic = new_topic()
    arguments = ["--topic", topic, "--num-records", str(COUNT), "--record-size", "100"]
    arguments += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={servers}"]
    printed = run_tool(f"{TOOLS}.ProducerPerformance", *arguments, *more).decode()
    expect(f"{COUNT} records sent" in printed, True)
    return topic


def _performance_produces(servers: str) -> None:
    _performance(servers)


def _performance_in_transactions(servers: str) -> None:
    topic = f"id-{new_topic()}"
    more = ("--transactional-id", topic, "--transaction-duration-ms", "50")
    _performance(servers, *more)
    tool = f"{TOOLS}.TransactionsCommand"
    listed = run_tool(tool, "--bootstrap-server", servers, "list").decode()
    expect(topic in listed, True)
    about = ("describe", "--transactional-id", topic)
    described = run_tool(tool, "--bootstrap-server", servers, *about).decode()
    expect("CompleteCommit" in described, True)


KCAT = ClientRow(
    name="kcat",
    version=_kcat_version(),
    checks={
        Task.PRODUCE: _kcat_produces,
        Task.CONSUME: _kcat_consumes,
        Task.GROUPS: _kcat_groups,
        Task.TOPICS: _kcat_topics,
    },
)
_JAVA = KAFKA.name.removeprefix("kafka-")
CONSOLE = ClientRow(
    name="Java: ConsoleProducer, ConsoleConsumer, TopicCommand, ConsumerGroupCommand",
    version=_JAVA,
    checks={
        Task.PRODUCE: _console_produces,
        Task.CONSUME: _console_consumes,
        Task.GROUPS: _console_groups,
        Task.TOPICS: _topic_command,
    },
)
PERFORMANCE = ClientRow(
    name="Java: ProducerPerformance, TransactionsCommand",
    version=_JAVA,
    checks={
        Task.PRODUCE: _performance_produces,
        Task.TRANSACTIONS: _performance_in_transactions,
    },
)


ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".venv-pyspark41" / "bin" / "python"


@cache
def _session() -> SparkSession:
    from tools.support.spark_session import start

    return start(Path(tempfile.mkdtemp(prefix="matrix-spark-")))


def _options(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}


def _produce(servers: str) -> None:
    topic = new_topic()
    frame = _session().createDataFrame([(value,) for value in VALUES], "value string")
    writer = frame.write.format("kafka").options(**_options(servers)).option("topic", topic)
    writer.mode("append").save()
    expect(values_in(servers, topic), list(VALUES))


def _consume(servers: str) -> None:
    topic = fill(servers)
    reader = _session().read.format("kafka").options(**_options(servers))
    rows = reader.option("subscribe", topic).load().selectExpr("CAST(value AS STRING)").collect()
    expect(sorted(row.value for row in rows), sorted(VALUES))
    _stream(servers, topic)


def _stream(servers: str, topic: str) -> None:
    to = new_topic()
    reader = _session().readStream.format("kafka").options(**_options(servers))
    frame = reader.option("subscribe", topic).load().select("value")
    with tempfile.TemporaryDirectory() as folder:
        writer = frame.writeStream.format("kafka").options(**_options(servers)).option("topic", to)
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        expect(query.awaitTermination(90), True)
    expect(values_in(servers, to), list(VALUES))


_TASKS = {Task.PRODUCE: _produce, Task.CONSUME: _consume}


def main() -> None:
    """Do one task in this process: `python -m tools.compat.clients.jvm_clients TASK SERVERS`."""
    _TASKS[Task(sys.argv[1])](sys.argv[2])


def _elsewhere(task: Task) -> Check:
    """Return a check that runs in the environment whose Spark fits the connector's archives."""

    def run(servers: str) -> None:
        line = [str(PYTHON), "-m", "tools.compat.clients.jvm_clients", task, servers]
        environment = os.environ | {"PYSPARK_PYTHON": str(PYTHON)}
        done = subprocess.run(
            line,
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"exit status {done.returncode}: {done.stderr[-2000:]}")

    return run


def _version() -> str:
    code = "import importlib.metadata as m; print(m.version('pyspark'))"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout


def spark() -> ClientRow:
    """Return the row; its version is that of the other environment."""
    return ClientRow(
        name='Spark: format("kafka"), batch and stream, source and sink',
        version=_version().strip(),
        checks={task: _elsewhere(task) for task in _TASKS},
    )


if __name__ == "__main__":
    main()
