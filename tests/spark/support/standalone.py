"""A standalone Spark cluster with one master and two workers in separate processes."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from tools.support.java import tied
from tools.support.kafka_node import free_port
from tools.support.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

_SPARK = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_WAIT_S = 120
_ENVIRONMENT = {
    "SPARK_HOME": str(_SPARK),
    "SPARK_DAEMON_MEMORY": "200m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_DEPLOY = "org.apache.spark.deploy"
WORKER = f"{_DEPLOY}.worker.Worker"
"""Part of the command line of a worker."""


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Run a cluster and yield the master's URL; workers have one core and use the folder.

    Raises:
        TimeoutError: the master did not start.
    """
    port = free_port()
    url = f"spark://{_HOST}:{port}"
    with ExitStack() as running:
        running.enter_context(_process(f"{_DEPLOY}.master.Master", "--port", str(port)))
        _wait_for(port)
        for number in range(2):
            work = str(folder / f"worker-{number}")
            options = ("--cores", "1", "--memory", "600m", "--work-dir", work)
            running.enter_context(_process(WORKER, *options, url))
        yield url


@contextmanager
def _process(main: str, *arguments: str) -> Iterator[None]:
    """Run a Spark daemon until the end of the context or of this process."""
    start = [str(_SPARK / "bin" / "spark-class"), main, "--host", _HOST, "--webui-port", "0"]
    process = subprocess.Popen(
        tied([*start, *arguments]),
        env={**os.environ, **_ENVIRONMENT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int) -> None:
    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((_HOST, port)) == 0

    if not poll(listens, _WAIT_S):
        raise TimeoutError("the master does not start")
