"""Access to internal objects and output of a broker."""

import subprocess

from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.partition.topic import Topic
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.support.raw_client import TIMEOUT, RawClient


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


def create_code(client: RawClient, topic: str, partitions: int = 1) -> tuple[ErrorCode, str]:
    """Create a topic and return the error code and message."""
    requested = {"name": topic, "num_partitions": partitions, "replication_factor": 1}
    response = client.call(ApiKey.CREATE_TOPICS, 5, topics=[requested], timeout=TIMEOUT).topics[0]
    return response.error_code, response.error_message or ""
