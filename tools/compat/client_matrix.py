"""Run third-party clients against the embedded broker: `python -m tools.compat.client_matrix`.

The results are written to a table in docs/compatibility.md, unless `--dry` is given. If there are
arguments, only clients whose names contain an argument are run, and the page is not updated. The
exit status is 1 if a check fails.
"""

import asyncio
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import aiokafka
import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic as PureTopic
from pyspark.sql import SparkSession

from spark_kafka_sink import EmbeddedBroker
from tools.docs.pages import table, write_block
from tools.support.admin import Admin
from tools.support.jars import KAFKA, ROOT
from tools.support.java import command, run_tool
from tools.support.readers import by_confluent, by_console_consumer

COUNT = 100
VALUES = tuple(f"value-{number}" for number in range(COUNT))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_SECONDS = 20
_numbers = itertools.count(1)
Check: TypeAlias = Callable[[str], object]
"""Function that performs a task, given bootstrap servers; raises an exception on failure."""
Send: TypeAlias = Callable[[str, str, str], None]
"""Function that sends all values, given (bootstrap servers, topic, codec)."""
Read: TypeAlias = Callable[..., list[str]]
"""Function that reads COUNT values, given (bootstrap servers, topic).

With `group`, it reads as a member of this group. With `committed`, it is read_committed.
"""
Use: TypeAlias = Callable[[str, str], None]
"""Function that uses a topic, given (bootstrap servers, topic)."""
TEXT = "\n".join(VALUES) + "\n"
TOOLS = "org.apache.kafka.tools"
_JAVA = KAFKA.name.removeprefix("kafka-")
PYTHON = ROOT / ".venv-pyspark-4.1" / "bin" / "python"
_SPARK_TASK = "--spark-task"
GOOD, BAD, NONE = "works", "fails", "-"


class Task(StrEnum):
    """Tasks that are checked, which are the columns of the matrix."""

    PRODUCE = "produce"
    CONSUME = "consume"
    GROUPS = "groups"
    TOPICS = "topics"
    TRANSACTIONS = "transactions"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """A client and the tasks that it supports."""

    name: str
    version: str
    checks: Mapping[Task, Check]


def new_topic() -> str:
    """Return an unused topic name. The broker creates the topic on first use."""
    return f"matrix-{next(_numbers)}"


def expect(actual: object, expected: object) -> None:
    """Check that two values are equal.

    Raises:
        AssertionError: the values differ.
    """
    if actual != expected:
        raise AssertionError(f"found {str(actual)[:200]}, expected {str(expected)[:200]}")


def fill(servers: str) -> str:
    """Create a topic with three partitions, write all values to it, and return its name."""
    topic = Admin(servers).create_topic(new_topic(), 3, 3)
    _confluent_send(servers, topic, "none")
    return topic


def values_in(servers: str, topic: str) -> list[str]:
    """Return the values in a topic, sorted."""
    texts = ((record.value or b"").decode() for record in by_confluent(servers, topic))
    return sorted(texts, key=lambda value: int(value.rpartition("-")[2]))


def produces(send: Send, codecs: tuple[str, ...] = CODECS) -> Check:
    """Return a check that sends all values with each codec."""

    def check(servers: str) -> None:
        for codec in codecs:
            topic = new_topic()
            send(servers, topic, codec)
            expect(values_in(servers, topic), list(VALUES))

    return check


def consumes(read: Read) -> Check:
    """Return a check that reads all values."""
    return lambda servers: expect(sorted(read(servers, fill(servers))), sorted(VALUES))


def joins(read: Read, then: Use = lambda *_: None) -> Check:
    """Return a check that reads as a group member, finds its offsets, and calls `then`."""

    def check(servers: str) -> None:
        topic = fill(servers)
        expect(sorted(read(servers, topic, group=topic)), sorted(VALUES))
        with closing(Consumer({"bootstrap.servers": servers, "group.id": topic})) as consumer:
            places = [TopicPartition(topic, number) for number in range(3)]
            offsets = consumer.committed(places, timeout=_SECONDS)
        expect(sum(max(0, place.offset) for place in offsets), COUNT)
        then(servers, topic)

    return check


def commits(transact: Use, read: Read) -> Check:
    """Return a check that aborts one transaction, commits one, and reads committed records."""

    def check(servers: str) -> None:
        topic = Admin(servers).create_topic(new_topic(), 2, 3)
        transact(servers, topic)
        expect(sorted(read(servers, topic, committed=True)), sorted(VALUES))

    return check


def checks(send: Send, read: Read, manage: Use, transact: Use) -> dict[Task, Check]:
    """Return the checks by task."""
    return {
        Task.PRODUCE: produces(send),
        Task.CONSUME: consumes(read),
        Task.GROUPS: joins(read),
        Task.TOPICS: lambda servers: manage(servers, new_topic()),
        Task.TRANSACTIONS: commits(transact, read),
    }


def _isolation(*, committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


def _confluent_send(servers: str, topic: str, codec: str) -> None:
    settings = {"bootstrap.servers": servers, "enable.idempotence": True, "compression.type": codec}
    producer = Producer(settings)
    for value in VALUES:
        producer.produce(topic, value, value)
    expect(producer.flush(_SECONDS), 0)


def _confluent_read(
    servers: str, topic: str, group: str | None = None, *, committed: bool = False
) -> list[str]:
    settings: dict[str, str | int | float | bool] = {
        "bootstrap.servers": servers,
        "group.id": group or f"{topic}-reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "check.crcs": True,
        "isolation.level": _isolation(committed=committed),
    }
    with closing(Consumer(settings)) as consumer:
        if group:
            consumer.subscribe([topic])
        else:
            partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
            consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        texts: list[str] = []
        while len(texts) < COUNT and (messages := consumer.consume(COUNT, _SECONDS)):
            for message in messages:
                expect(message.error(), None)
                texts.append((message.value() or b"").decode())
        if group:
            consumer.commit(asynchronous=False)
    return texts


def _confluent_manage(servers: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    new = NewTopic(topic, 2, 3, config={"retention.ms": "5000"})
    admin.create_topics([new])[topic].result(_SECONDS)
    resource = ConfigResource(ResourceType.TOPIC, topic)
    configs = admin.describe_configs([resource])[resource].result(_SECONDS)
    expect(configs["retention.ms"].value, "5000")
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(_SECONDS)
    expect(len(admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions), 4)
    admin.delete_topics([topic])[topic].result(_SECONDS)


def _confluent_transact(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
    producer.init_transactions(_SECONDS)
    for end, values in (
        (producer.abort_transaction, ("aborted-1", "aborted-2")),
        (producer.commit_transaction, VALUES),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(_SECONDS)
        end(_SECONDS)


CONFLUENT = ClientRow(
    name="confluent-kafka",
    version=f"{confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}",
    checks=checks(_confluent_send, _confluent_read, _confluent_manage, _confluent_transact),
)


def _pure_send(servers: str, topic: str, codec: str) -> None:
    named = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=servers.split(","), compression_type=named)
    for sent in [producer.send(topic, value.encode()) for value in VALUES]:
        sent.get(_SECONDS)
    producer.close()


def _pure_read(
    servers: str, topic: str, group: str | None = None, *, committed: bool = False
) -> list[str]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=servers.split(","),
        auto_offset_reset="earliest",
        consumer_timeout_ms=_SECONDS * 1000,
        group_id=group,
        isolation_level=_isolation(committed=committed),
    )
    texts = [record.value.decode() for _, record in zip(range(COUNT), consumer, strict=False)]
    if group:
        consumer.commit()
    consumer.close()
    return texts


def _pure_manage(servers: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=servers.split(","))
    admin.create_topics([PureTopic(topic, 2, 3)])
    expect(topic in admin.list_topics(), True)
    admin.delete_topics([topic])
    expect(topic in admin.list_topics(), False)
    admin.close()


def _pure_transact(servers: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=servers.split(","), transactional_id=topic)
    producer.init_transactions()
    for end, values in (
        (producer.abort_transaction, ("aborted",)),
        (producer.commit_transaction, VALUES),
    ):
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value.encode())
        producer.flush()
        end()
    producer.close()


KAFKA_PYTHON = ClientRow(
    name="kafka-python",
    version=kafka.__version__,
    checks=checks(_pure_send, _pure_read, _pure_manage, _pure_transact),
)


async def _aio_send(servers: str, topic: str, codec: str) -> None:
    named = None if codec == "none" else codec
    async with AIOKafkaProducer(
        bootstrap_servers=servers, enable_idempotence=True, compression_type=named
    ) as producer:
        await asyncio.gather(*[producer.send_and_wait(topic, value.encode()) for value in VALUES])


async def _aio_read(
    servers: str, topic: str, group: str | None = None, *, committed: bool = False
) -> list[str]:
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        group_id=group,
        isolation_level=_isolation(committed=committed),
    ) as consumer:
        return [(await consumer.getone()).value.decode() for _ in range(COUNT)]


async def _aio_manage(servers: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics([AioTopic(topic, 2, 3)])
    expect(topic in await admin.list_topics(), True)
    await admin.delete_topics([topic])
    await admin.close()


async def _aio_transact(servers: str, topic: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"aborted")
        await producer.abort_transaction()
        async with producer.transaction():
            for value in VALUES:
                await producer.send_and_wait(topic, value.encode())


def _await(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return asyncio.run(asyncio.wait_for(function(*arguments, **options), 2 * _SECONDS))


AIOKAFKA = ClientRow(
    name="aiokafka",
    version=aiokafka.__version__,
    checks=checks(
        partial(_await, _aio_send),
        partial(_await, _aio_read),
        partial(_await, _aio_manage),
        partial(_await, _aio_transact),
    ),
)


def _run_command(line: list[str], text: str = "", **options: Any) -> str:
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
    return _run_command(["kcat", "-b", servers, *arguments], text)


def _kafka_tool(tool: str, servers: str, *arguments: str) -> str:
    """Run a tool of Kafka and return its output."""
    return run_tool(f"{TOOLS}.{tool}", "--bootstrap-server", servers, *arguments).decode()


def _kcat_version() -> str:
    version, library = re.findall(r"\d+\.\d+[.\d]*", _run_command(["kcat", "-V"]))[:2]
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


def _console_send(servers: str, topic: str, _: str) -> None:
    arguments = ["--bootstrap-server", servers, "--topic", topic]
    _run_command(command(f"{TOOLS}.ConsoleProducer", arguments), TEXT)


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
    version=_JAVA,
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
    printed = run_tool(f"{TOOLS}.ProducerPerformance", *arguments, *more).decode()
    expect(f"{COUNT} records sent" in printed, True)


def _performance_in_transactions(servers: str) -> None:
    name = f"id-{new_topic()}"
    _performance(servers, "--transactional-id", name, "--transaction-duration-ms", "50")
    use = partial(_kafka_tool, "TransactionsCommand", servers)
    expect(name in use("list"), True)
    expect("CompleteCommit" in use("describe", "--transactional-id", name), True)


PERFORMANCE = ClientRow(
    name="Java: ProducerPerformance, TransactionsCommand",
    version=_JAVA,
    checks={Task.PRODUCE: _performance, Task.TRANSACTIONS: _performance_in_transactions},
)


@cache
def _session() -> SparkSession:
    from tools.support.jars import SPARK_SINK
    from tools.support.spark_session import start

    return start(Path(tempfile.mkdtemp(prefix="matrix-spark-")), (SPARK_SINK,))


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


def _elsewhere(*arguments: str) -> str:
    """Run this module in the Python environment whose Spark version matches the connector's jars.

    The arguments are a task and bootstrap servers. Without them, the version of pyspark is printed.
    """
    line = [str(PYTHON), "-m", "tools.compat.client_matrix", _SPARK_TASK, *arguments]
    return _run_command(line, cwd=ROOT, env=os.environ | {"PYSPARK_PYTHON": str(PYTHON)})


def spark() -> ClientRow:
    """Return Spark's row of the matrix, with the PySpark version of the separate environment."""
    return ClientRow(
        name='Spark: format("kafka"), batch and stream, source and sink',
        version=_elsewhere(),
        checks={task: partial(_elsewhere, task) for task in _TASKS},
    )


def _checked_cell(client: ClientRow, task: Task, check: Check) -> str:
    """Run a check on a new three-node cluster with replication factor 3; return its table cell."""
    started = time.monotonic()
    with EmbeddedBroker(nodes=3, replication_factor=3, auto_create_topics=True) as kafka:
        try:
            check(kafka.bootstrap_servers)
        except Exception:  # noqa: BLE001 - whatever it is, it does not work
            traceback.print_exc()
            result = BAD
        else:
            result = GOOD
    took = time.monotonic() - started
    print(f"{client.name}, {task}: {result} ({took:.1f} s)", flush=True)
    return result


def row(client: ClientRow) -> list[str]:
    """Return a client's row of the table, as a list of cells."""
    cells = [
        _checked_cell(client, t, client.checks[t]) if t in client.checks else NONE for t in Task
    ]
    return [client.name, client.version, *cells]


def _spark_task(task: str = "", servers: str = "") -> None:
    """Perform one of Spark's tasks in this process, or print the version of pyspark."""
    if task:
        _TASKS[Task(task)](servers)
    else:
        print(version("pyspark"), end="")


def main() -> None:
    """Run the checks, print the table, and update the page."""
    if _SPARK_TASK in sys.argv:
        _spark_task(*sys.argv[2:])
        return
    words = [word.lower() for word in sys.argv[1:] if not word.startswith("-")]
    clients = (KCAT, CONFLUENT, KAFKA_PYTHON, AIOKAFKA, CONSOLE, PERFORMANCE, spark())
    chosen = [c for c in clients if not words or any(word in c.name.lower() for word in words)]
    matrix = table(["client", "version", *Task], [row(client) for client in chosen])
    print(matrix)
    if not words and "--dry" not in sys.argv:
        write_block("matrix", matrix)
    sys.exit(1 if BAD in matrix else 0)


if __name__ == "__main__":
    main()
