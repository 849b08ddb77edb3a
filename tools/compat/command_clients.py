"""Checks with command line clients (Kafka's tools, kcat) and with Spark's own connector."""

import os
import re
import subprocess
import sys
import tempfile
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tools.compat.clients import (
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
    values_in,
)
from tools.support.jars import KAFKA, ROOT
from tools.support.java import command, run_tool
from tools.support.readers import by_console_consumer

TEXT = "\n".join(VALUES) + "\n"
TOOLS = "org.apache.kafka.tools"


def _run(line: list[str], text: str = "", **options: Any) -> str:
    done: subprocess.CompletedProcess[str] = subprocess.run(
        line, input=text, capture_output=True, text=True, timeout=300, check=False, **options
    )
    if done.returncode:
        raise AssertionError(f"exit status {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _kcat(servers: str, *arguments: str, text: str = "") -> str:
    return _run(["kcat", "-b", servers, *arguments], text)


def _kafka_tool(tool: str, servers: str, *arguments: str) -> str:
    """Run a tool of Kafka and return its output."""
    return run_tool(f"{TOOLS}.{tool}", "--bootstrap-server", servers, *arguments).decode()


def _kcat_version() -> str:
    version, library = re.findall(r"\d+\.\d+[.\d]*", _run(["kcat", "-V"]))[:2]
    return f"{version}, librdkafka {library}"


def _kcat_send(servers: str, topic: str, codec: str) -> None:
    _kcat(servers, "-P", "-t", topic, "-z", codec, text=TEXT)


def _kcat_read(servers: str, topic: str, group: str | None = None) -> list[str]:
    options = ["-e", "-q", "-X", "check.crcs=true", "-X", "auto.offset.reset=earliest"]
    place = ["-G", group, topic] if group else ["-C", "-t", topic]
    return _kcat(servers, *options, *place).split()


def _kcat_topics(servers: str) -> None:
    topic = fill(servers)
    expect(f'"{topic}" with 3 partitions' in _kcat(servers, "-L", "-t", topic), True)


def _console_send(servers: str, topic: str, _: str) -> None:
    arguments = ["--bootstrap-server", servers, "--topic", topic]
    _run(command(f"{TOOLS}.ConsoleProducer", arguments), TEXT)


def _console_read(servers: str, topic: str, group: str | None = None) -> list[str]:
    if group is None:
        found = by_console_consumer(servers, topic)
        return [(record.value or b"").decode() for record in found]
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


def _performance(servers: str, *more: str) -> None:
    arguments = ["--topic", new_topic(), "--num-records", str(COUNT), "--record-size", "100"]
    arguments += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={servers}"]
    printed = run_tool(f"{TOOLS}.ProducerPerformance", *arguments, *more).decode()
    expect(f"{COUNT} records sent" in printed, True)


def _performance_in_transactions(servers: str) -> None:
    name = f"id-{new_topic()}"
    _performance(servers, "--transactional-id", name, "--transaction-duration-ms", "50")
    use = partial(_kafka_tool, "TransactionsCommand", servers)
    expect(name in use("list"), True)
    expect("CompleteCommit" in use("describe", "--transactional-id", name), True)


KCAT = ClientRow(
    name="kcat",
    version=_kcat_version(),
    checks={
        Task.PRODUCE: produces(_kcat_send),
        Task.CONSUME: consumes(_kcat_read),
        Task.GROUPS: joins(_kcat_read),
        Task.TOPICS: _kcat_topics,
    },
)
_JAVA = KAFKA.name.removeprefix("kafka-")
CONSOLE = ClientRow(
    name="Java: ConsoleProducer, ConsoleConsumer, TopicCommand, ConsumerGroupCommand",
    version=_JAVA,
    checks={
        Task.PRODUCE: produces(_console_send, ("none",)),
        Task.CONSUME: consumes(_console_read),
        Task.GROUPS: joins(_console_read, _describe_group),
        Task.TOPICS: _topic_command,
    },
)
PERFORMANCE = ClientRow(
    name="Java: ProducerPerformance, TransactionsCommand",
    version=_JAVA,
    checks={Task.PRODUCE: _performance, Task.TRANSACTIONS: _performance_in_transactions},
)


PYTHON = ROOT / ".venv-pyspark41" / "bin" / "python"


@cache
def _session() -> SparkSession:
    from tools.support.spark_session import start

    return start(Path(tempfile.mkdtemp(prefix="matrix-spark-")))


def _options(servers: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest"}


def _spark_send(servers: str, topic: str, _: str) -> None:
    frame = _session().createDataFrame([(value,) for value in VALUES], "value string")
    writer = frame.write.format("kafka").options(**_options(servers)).option("topic", topic)
    writer.mode("append").save()


def _spark_consumes(servers: str) -> None:
    """Read a topic in a batch job, and copy a topic in a stream."""
    topic, to = fill(servers), new_topic()
    reader = _session().read.format("kafka").options(**_options(servers))
    rows = reader.option("subscribe", topic).load().selectExpr("CAST(value AS STRING)").collect()
    expect(sorted(row.value for row in rows), sorted(VALUES))
    stream = _session().readStream.format("kafka").options(**_options(servers))
    frame = stream.option("subscribe", topic).load().select("value")
    with tempfile.TemporaryDirectory() as folder:
        writer = frame.writeStream.format("kafka").options(**_options(servers)).option("topic", to)
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        expect(query.awaitTermination(90), True)
    expect(values_in(servers, to), list(VALUES))


_TASKS = {Task.PRODUCE: produces(_spark_send, ("none",)), Task.CONSUME: _spark_consumes}


def main() -> None:
    """Perform one task in this process: `python -m tools.compat.command_clients [TASK SERVERS]`.

    Without arguments, print the version of pyspark.
    """
    if sys.argv[1:]:
        _TASKS[Task(sys.argv[1])](sys.argv[2])
    else:
        print(version("pyspark"), end="")


def _elsewhere(*arguments: str) -> str:
    """Run `main` in the Python environment whose Spark version matches the connector's archives."""
    line = [str(PYTHON), "-m", "tools.compat.command_clients", *arguments]
    return _run(line, cwd=ROOT, env=os.environ | {"PYSPARK_PYTHON": str(PYTHON)})


def spark() -> ClientRow:
    """Return Spark's row of the matrix, with the PySpark version of the separate environment."""
    return ClientRow(
        name='Spark: format("kafka"), batch and stream, source and sink',
        version=_elsewhere(),
        checks={task: partial(_elsewhere, task) for task in _TASKS},
    )


if __name__ == "__main__":
    main()
