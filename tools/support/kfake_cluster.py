"""kfake, the fake Kafka cluster of franz-go, as a context manager. It is compiled with Go."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock

from tools.support.jars import CACHE
from tools.support.kafka_node import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("go", "empty-markers")
"""Module files in the folder kfake: the newest version, and one whose markers have no value and
whose InitProducerId leaves an open transaction open."""
_SOURCE = Path(__file__).with_name("kfake")


@contextmanager
def kfake_cluster(version: str) -> Iterator[str]:
    """Run three nodes in memory; yield its bootstrap servers."""
    ports = [str(free_port()) for _ in range(3)]
    process = subprocess.Popen(
        [_binary(version), *ports],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline().strip()
        if line != "ready":
            raise RuntimeError(f"kfake did not start: {line}")
        yield ",".join(f"127.0.0.1:{port}" for port in ports)
    finally:
        process.stdin.close()  # kfake exits when its standard input is closed.
        process.wait(30)


def _binary(version: str) -> Path:
    """Compile kfake unless this version is compiled already; return the path of the program."""
    program = CACHE / "kfake" / version
    newest = max(path.stat().st_mtime for path in _SOURCE.iterdir())
    program.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{program}.lock"):
        if not program.is_file() or program.stat().st_mtime < newest:
            if shutil.which("go") is None:
                raise RuntimeError("Go is not installed: the tests with kfake compile it")
            module = f"-modfile={version}.mod"
            command = ["go", "build", "-buildvcs=false", module, "-o", str(program), "."]
            subprocess.run(command, cwd=_SOURCE, check=True)
    return program
