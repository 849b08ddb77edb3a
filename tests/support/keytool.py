"""Run Java's keytool and openssl."""

import subprocess
from pathlib import Path

from tools.checks.needs import find_java
from tools.support.java import QUICK_JVM

_QUICK = tuple(f"-J{option}" for option in QUICK_JVM)


def keytool(*arguments: str) -> None:
    """Run the keytool next to `java`, without prompts."""
    java = find_java()
    if java is None:
        raise FileNotFoundError("Java is not on the path")
    command, *rest = arguments
    run_tool(str(Path(java).resolve().with_name("keytool")), command, *_QUICK, "-noprompt", *rest)


def openssl(*arguments: str) -> None:
    run_tool("openssl", *arguments)


def run_tool(*line: str) -> None:
    """Run a command.

    Raises:
        RuntimeError: the command failed; the message contains its output.
    """
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{line[0]} failed:\n{done.stdout}{done.stderr}")
