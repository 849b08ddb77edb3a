"""librdkafka driven from C: the library that confluent-kafka brings, and our own small program.

Needs a C compiler, but no headers of librdkafka: `librdkafka_bench.c` declares what it calls.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tools.benchmarks.payload import FOLDER

if TYPE_CHECKING:
    from tools.benchmarks.core.job import Job

SOURCE = Path(__file__).with_name("librdkafka_bench.c")


class NoCompilerError(RuntimeError):
    """There is no C compiler, or it failed; the message says what to install."""


def command(job: Job) -> list[str]:
    """The command line that runs a job."""
    settings = {"bootstrap.servers": job.bootstrap_servers, **job.options}
    sizes = [str(job.warmup), str(job.records)]
    return [
        str(build()),
        str(_library()),
        *(job.topic, str(job.payload), *sizes),
        *(f"{name}={value}" for name, value in settings.items()),
    ]


def build() -> Path:
    """The program, compiled when it is missing or older than its source.

    Raises:
        NoCompilerError: as its docstring says.
    """
    program = FOLDER / SOURCE.stem
    if program.exists() and program.stat().st_mtime >= SOURCE.stat().st_mtime:
        return program
    FOLDER.mkdir(parents=True, exist_ok=True)
    line = [_compiler(), "-O2", "-Wall", "-o", str(program), str(SOURCE), "-ldl"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompilerError(f"{' '.join(line)} failed:\n{done.stderr}")
    return program


def _compiler() -> str:
    if _find() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        packages = ["install", "-y", "-q", "--no-install-recommends", "gcc", "libc6-dev"]
        for step in (["update", "-q"], packages):
            subprocess.run(["apt-get", *step], env=environment, capture_output=True, check=False)
    compiler = _find()
    if compiler is None:
        raise NoCompilerError("librdkafka in C needs a C compiler: apt-get install gcc libc6-dev")
    return compiler


def _find() -> str | None:
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def _library() -> Path:
    spec = importlib.util.find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    folders = (package.with_name("confluent_kafka.libs"), package / ".dylibs")
    return next(path for folder in folders for path in folder.glob("librdkafka*"))
