"""Write to Tansu, and read the records with another client: `python -m tools.compat.tansu`.

`cargo install tansu --version 0.6.0 --no-default-features --features dynostore` compiles the
program, which takes up to 40 minutes. Another path can be specified as the only argument.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.exactly_once.transactional_id import Scope
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session_pool import borrow_session, give_back_session, idle_clients
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tools.support.kafka_node import free_port
from tools.support.readers import by_confluent
from tools.support.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator


_START_S = 60
_TASKS = 5
_ROWS = 1_000


@contextmanager
def tansu(program: str) -> Iterator[str]:
    """Run a broker in memory; yield its bootstrap servers."""
    port = free_port()
    url = f"tcp://127.0.0.1:{port}"
    command = [program, "broker", "--listener-url", url, "--advertised-listener-url", url]
    process = subprocess.Popen(
        [*command, "--storage-engine", "memory://tansu/"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        if not poll(listens, _START_S):
            raise RuntimeError("Tansu did not start")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def write_tasks(servers: str, topic: str, **options: str) -> None:
    """Write with several tasks of one process, like Spark, and compare what a client reads."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(_START_S)
    named = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    config = ProducerConfig.parse({"kafka.bootstrap.servers": servers, **named})
    for task in range(_TASKS):
        session = borrow_session(config)
        values = [b"%d" % number for number in range(task * _ROWS, (task + 1) * _ROWS)]
        session.append(Rows(columns=Columns(value=pa.array(values, pa.binary())), topics=(topic,)))
        session.flush()
        session.report(TaskAttempt())
        give_back_session(session)
    numbers = Counter(int(record.value or b"-1") for record in by_confluent(servers, topic))
    if numbers != Counter(range(_TASKS * _ROWS)):
        raise AssertionError(f"{topic} has {numbers.total():,} records, {len(numbers):,} different")


def exactly_once_error(servers: str) -> str:
    """Return the error of a write with exactly once, before its first row."""
    options = {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "p", "topic": "eos"}
    config = SinkConfig.parse({"kafka.bootstrap.servers": servers, **options})
    try:
        BatchCommitter(config, Scope.stream("p")).recover()
    except ConfigError as error:
        return str(error)
    raise AssertionError("exactly once was not rejected")


def main() -> None:
    """Run all checks."""
    program = sys.argv[1] if len(sys.argv) > 1 else shutil.which("tansu")
    if program is None:
        raise SystemExit("tansu is not on the PATH: see the docstring of this module")
    with tansu(program) as servers:
        for codec in Codec:
            write_tasks(servers, f"codec-{codec.name.lower()}", compression_type=codec.name.lower())
        for acks in ("all", "1"):
            write_tasks(servers, f"acks-{acks}", acks=acks, enable_idempotence=str(acks == "all"))
        print(f"{_TASKS} tasks with each codec and with acks: every record is there once")
        print(f"exactly once: {exactly_once_error(servers)}")
        idle_clients.close()


if __name__ == "__main__":
    main()
