"""A real redis-server on a free port, without persistence."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from typing import Self

import redis

from tests.support.waiting import wait_until
from tools.support.kafka_node import free_port

START_S = 20


class RedisServer:
    """One server; with `replica_of`, it is a replica of another one."""

    def __init__(self, folder: Path, replica_of: RedisServer | None = None) -> None:
        self.port = free_port()
        self.socket_path = folder / "redis.sock"
        self._folder = folder
        self._replica_of = replica_of
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def url(self, prefix: str = "korvet", **parameters: object) -> str:
        more = "".join(f"&{name}={value}" for name, value in parameters.items())
        return f"redis://127.0.0.1:{self.port}/0?prefix={prefix}{more}"

    def start(self) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", str(self._folder)]
        command += ["--unixsocket", str(self.socket_path)]
        command += ["--repl-diskless-sync-delay", "0"]
        if self._replica_of is not None:
            command += ["--replicaof", f"127.0.0.1 {self._replica_of.port}"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until(self._is_ready)

    def _is_ready(self) -> bool:
        with contextlib.suppress(redis.ConnectionError, redis.BusyLoadingError):
            info = self.client.info("replication")
            return self._replica_of is None or info["master_link_status"] == "up"
        return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(START_S)
            self._process = None

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
