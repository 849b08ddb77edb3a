"""A Kafka process that is both broker and controller, with its files."""

import contextlib
import fcntl
import functools
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from tools.support.jars import KAFKA, JarSet
from tools.support.java import command, run_tool
from tools.support.waiting import poll

_PREFIX = "sks-kafka-"
_LOG4J = """status=error
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
"""
# The range is below the ephemeral ports, so that a stopped node's ports are still free when it
# restarts.
_PORTS = (20_000, 32_000)
_STOP_S = 40
_UP_S = 180


def new_folder() -> Path:
    """Create a temporary folder whose name contains the ID of this process."""
    _sweep()
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))


def _sweep() -> None:
    """Delete the folders of processes that have exited."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        owner = folder.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


class NodeError(RuntimeError):
    """The process exited or did not start; the message ends with the tail of its log."""


@functools.cache
def _port_locks(process: int) -> tuple[IO[bytes], set[int]]:
    """Return the lock file of a process, and its ports. Forked children do not inherit locks."""
    del process
    return (Path(tempfile.gettempdir()) / "kafkaprod-test-ports").open("ab"), set()


def _take(port: int) -> bool:
    """Lock a port until this process exits; return False if it is locked already.

    This prevents two test processes from choosing the same port before its server starts. Each port
    is a byte of the lock file.
    """
    file, mine = _port_locks(os.getpid())
    if port in mine:
        return False
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    mine.add(port)
    return True


def free_port() -> int:
    """Return a free TCP port that no other test process will choose."""
    while True:
        port = random.randrange(*_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if _take(port):
                return port


@dataclass(slots=True, kw_only=True)
class KafkaNode:
    """A node of a KRaft cluster, with its files in `folder` and its process if it is running."""

    node_id: int
    folder: Path
    port: int
    controller_port: int
    heap_mib: int
    java_options: tuple[str, ...] = ()
    jars: JarSet = KAFKA
    scram: tuple[str, ...] = ()
    """Users that are created during formatting, in the syntax of StorageTool's --add-scram."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        """The folder that contains the folders of the partitions."""
        return self.folder / "data"

    @property
    def server_log(self) -> Path:
        return self.folder / "server.log"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def format(self, cluster_id: str, settings: Mapping[str, str]) -> None:
        """Write server.properties and format the storage with Kafka's StorageTool."""
        listeners = f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self.controller_port}"
        own = {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.log_dir),
        }
        self.write_properties({**own, **settings})
        (self.folder / "log4j2.properties").write_text(_LOG4J, encoding="utf-8")
        users = [argument for user in self.scram for argument in ("--add-scram", user)]
        run_tool(
            *("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", self._properties, *users)
        )

    def start(self) -> None:
        """Start the process, without waiting until it is ready."""
        heap = (f"-Xms{self.heap_mib}m", f"-Xmx{self.heap_mib}m")
        options = (*heap, *self.java_options, self.log_option())
        line = command("kafka.Kafka", [self._properties], options, self.jars)
        with self.server_log.open("ab") as log:
            self.process = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def log_option(self) -> str:
        """Return the Java option that specifies the logging configuration file."""
        return f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"

    def wait_listening(self) -> None:
        """Wait until the port accepts connections.

        Raises:
            NodeError: the process exited, or did not listen within three minutes.
        """
        if not poll(lambda: not self.running or self._is_listening(), _UP_S) or not self.running:
            raise NodeError(f"Kafka node {self.node_id} did not start:\n{self.log_end()}")

    def _is_listening(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def stop(self) -> None:
        """Shut down the node in a controlled way with SIGTERM; kill the process if it hangs."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Send SIGKILL, to simulate a crash."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, but the node does not respond."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)

    def log_end(self) -> str:
        """Return the end of the server log."""
        return self.server_log.read_text(errors="replace", encoding="utf-8")[-3000:]

    def write_properties(self, settings: Mapping[str, str]) -> None:
        """Create the node's folder, and write server.properties to it."""
        self.folder.mkdir(parents=True)
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        (self.folder / "server.properties").write_text("".join(lines), encoding="utf-8")

    @property
    def _properties(self) -> str:
        return str(self.folder / "server.properties")

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None or not self.running:
            raise NodeError(f"Kafka node {self.node_id} is not running")
        self.process.send_signal(number)
