"""Access to internal objects and output of a broker."""

import subprocess

from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.partition.partition import Topic
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog


def topic_in(cluster: Cluster, name: str = "t") -> Topic:
    topic = cluster.topics.named(name)
    assert topic is not None
    return topic


def log_in(cluster: Cluster, name: str = "t", index: int = 0) -> UnifiedLog:
    partition = topic_in(cluster, name).partition(index)
    assert partition is not None
    return partition.log


def next_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of a process's output."""
    assert process.stdout is not None
    return process.stdout.readline()
