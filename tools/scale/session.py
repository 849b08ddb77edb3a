"""One producer session's cost: `python -m tools.scale.session SERVERS ROWS`.

Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass

import psutil
import pyarrow as pa

from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import borrow_session, discard_session
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.report.task_report import TaskInfo
from tools.scale.messages import TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCost:
    """What a task's session did and took."""

    persisted: int
    partitions: int
    connections: int
    """That it opened, the one to a bootstrap server among them."""
    most_connections: int
    """To one broker by its id; a bootstrap server has one of its own."""
    requests: int
    cpu_seconds: float
    memory: int
    """Bytes that the process has grown by, with the session still open."""


def write(bootstrap_servers: str, rows: int) -> SessionCost:
    """Write so many keyed rows into `TOPIC`."""
    names = [b"%d" % number for number in range(rows)]
    column = pa.array(names, pa.binary())
    before, started = _memory(), time.process_time()
    config = ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers})
    session = borrow_session(config)
    try:
        session.append(Rows(columns=Columns(value=column, key=column), topics=(TOPIC,)))
        session.flush()
        report, memory = session.report(TaskInfo()), _memory() - before
    finally:
        discard_session(session)
    brokers = report.metrics.brokers
    connects = Counter({each.node_id: each.connects for each in brokers})
    return SessionCost(
        persisted=report.persisted,
        partitions=len(report.partitions),
        connections=connects.total(),
        most_connections=max(connects.values()),
        requests=sum(each.tx for each in brokers),
        cpu_seconds=time.process_time() - started,
        memory=memory,
    )


def _memory() -> int:
    return int(psutil.Process().memory_info().rss)


if __name__ == "__main__":
    print(json.dumps(asdict(write(sys.argv[1], int(sys.argv[2])))))
