"""Java processes that die with the process that started them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.kafka.jars import KAFKA, JarSet, ensure
from tools.checks.needs import find_java

if TYPE_CHECKING:
    from collections.abc import Sequence

_LAUNCHER = Path(__file__).with_name("launcher.py")
_QUICK = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


class JavaError(RuntimeError):
    """Java is missing or too old, or a Java tool failed; the message ends with its output."""


def command(
    main: str, arguments: Sequence[str], options: Sequence[str] = _QUICK, jars: JarSet = KAFKA
) -> list[str]:
    """The command line that runs a class of Kafka's archives, tied to this process's life.

    Raises:
        JavaError: there is no Java.
    """
    java = find_java()
    if java is None:
        raise JavaError("Java is not on the path")
    classpath = ensure(jars).classpath()
    return tied([java, *options, "-cp", classpath, main, *arguments])


def tied(command_line: Sequence[str]) -> list[str]:
    """The same command line, tied to this process's life."""
    return [sys.executable, "-S", "-E", str(_LAUNCHER), str(os.getpid()), *command_line]


def run_tool(main: str, *arguments: str, timeout_s: float = 120) -> bytes:
    """Run a Kafka tool to its end and return its standard output.

    Raises:
        JavaError: it exits with another status than 0.
    """
    done = subprocess.run(
        command(main, arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        printed = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise JavaError(f"{main} failed ({done.returncode}):\n{printed}")
    return done.stdout
