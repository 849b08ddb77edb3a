"""A broker stops during a write, in a process without logging configuration, as in Spark."""

import subprocess
import sys
from pathlib import Path

from tools.support.kafka_cluster import KafkaCluster

ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import sys
from tests.support.producer_writes import rows, session

with session(sys.argv[1], linger_ms=0) as producer:
    for line in sys.stdin:
        producer.append(rows(sys.argv[2], [line.encode()], partitions=[0]))
        if line != "last\\n":
            producer.flush()
            print("flushed", flush=True)
    producer.flush()
"""


def test_stopped_leader_is_logged_to_stderr(real_kafka: KafkaCluster, unique_topic: str) -> None:
    real_kafka.admin.create_topic(unique_topic, 1)
    node = real_kafka.node(1)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, real_kafka.bootstrap_servers, unique_topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("first\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "flushed\n"
        node.kill()
        writer.stdin.write("last\n")
        writer.stdin.flush()
        node.start()
        real_kafka.wait_ready()
        _, stderr = writer.communicate(timeout=60)
    assert writer.returncode == 0, stderr
    about = [line for line in stderr.splitlines() if f"broker 1 at {node.address}" in line]
    assert about, stderr
    assert "Connection refused" in about[0]
    assert "waiting for it: 1 record in 1 batch, for up to" in about[0]
    assert "reconnected after" in about[-1]
    assert len(stderr.splitlines()) <= 6
