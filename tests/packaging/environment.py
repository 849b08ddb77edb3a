"""Virtual environments for the wheel: its requirements are linked from this one, not downloaded."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_TIMEOUT_S = 300
_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
_LEADING = ("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV")


class Environment:
    """An empty virtual environment without pip, in a new folder."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.bin = folder / "bin"
        self._packages = next((folder / "lib").glob("python3*")) / "site-packages"

    def link(self, requirements: Iterable[str]) -> None:
        """Link the requirements, and their requirements, from this environment."""
        for name in needed(requirements):
            installed = distribution(name)
            tops = {path.parts[0] for path in installed.files or ()} - {"..", "__pycache__"}
            for link in (self._packages / top for top in tops):
                if not link.exists():
                    link.symlink_to(Path(str(installed.locate_file(link.name))))

    def install(self, wheel: Path) -> None:
        """Install the wheel with pip, which must find all requirements in the environment."""
        pip = [*_PIP, "--python", str(self.bin / "python")]
        run([*pip, "install", "--no-index", str(wheel)], self.folder)

    def run(self, *command: str) -> str:
        """Run a command of the environment and return its output; its exit status must be 0."""
        return run([self.bin / command[0], *command[1:]], self.folder)


def needed(requirements: Iterable[str]) -> Iterator[str]:
    """Return the names of directly and indirectly required distributions."""
    waiting, seen = list(requirements), set[str]()
    while waiting:
        requirement = Requirement(waiting.pop())
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in seen:
            seen.add(requirement.name)
            waiting += distribution(requirement.name).requires or ()
            yield requirement.name


def run(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """Run a command in a folder and return its output; its exit status must be 0."""
    done = subprocess.run(
        list(command),
        cwd=folder,
        env=bare() | variables,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + _relevant(done.stderr)[-6000:]
    return done.stdout


def _relevant(text: str) -> str:
    """Return the output without Spark's INFO lines and JVM stack traces."""
    lines = (line for line in text.splitlines() if " INFO " not in line)
    return "\n".join(line for line in lines if not line.startswith("\tat "))


def bare() -> dict[str, str]:
    """Return this process's environment without variables that name its packages and its Spark."""
    return {name: text for name, text in os.environ.items() if not name.startswith(_LEADING)}
