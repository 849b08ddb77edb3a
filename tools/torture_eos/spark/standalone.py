"""Spark's own cluster of two workers with addresses of their own, both on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark

from tests.support.kafka.node import free_port

_MASTER = "127.0.0.1"
_WORKERS = ("127.0.0.1", "127.0.0.2")
EXECUTORS = len(_WORKERS)
_READY_S = 120


def start_cluster(folder: str) -> str:
    """Start master and workers, which end with the process group, and return the master's URL."""
    port = free_port()
    _start("org.apache.spark.deploy.master.Master", "--host", _MASTER, "--port", str(port))
    _await_listening(port)
    url = f"spark://{_MASTER}:{port}"
    for number, host in enumerate(_WORKERS):
        size = ("--cores", "2", "--memory", "600m")
        work = ("--work-dir", f"{folder}/worker-{number}")
        _start("org.apache.spark.deploy.worker.Worker", "--host", host, *size, *work, url)
    return url


def _start(main: str, *arguments: str) -> None:
    script = Path(pyspark.__file__).with_name("bin") / "spark-class"
    command = [str(script), main, "--webui-port", "0", *arguments]
    # Standard output is for what the driver has to say.
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def _await_listening(port: int) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((_MASTER, port)):
            return
        time.sleep(0.05)
    raise TimeoutError(f"Spark's master does not listen on port {port}")
