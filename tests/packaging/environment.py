"""Virtual environments for the wheel: what it needs is linked from this one, nothing is loaded."""

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
    """An empty virtual environment, without pip.

    Args:
        folder: where it will be.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder = folder
        self.bin = folder / "bin"
        self._packages = next((folder / "lib").glob("python3*")) / "site-packages"

    def link(self, requirements: Iterable[str]) -> None:
        """Put in what is required, and what that requires, as this environment has it."""
        for name in needed(requirements):
            found = distribution(name)
            tops = {path.parts[0] for path in found.files or ()} - {"..", "__pycache__"}
            for link in (self._packages / top for top in tops):
                if not link.exists():
                    link.symlink_to(Path(str(found.locate_file(link.name))))

    def install(self, wheel: Path) -> None:
        """Install the wheel by pip, which has to find all that it requires in here."""
        pip = [*_PIP, "--python", str(self.bin / "python")]
        run([*pip, "install", "--no-index", str(wheel)], self.folder)

    def run(self, *command: str) -> str:
        """What a command of its own prints; it has to exit with 0."""
        return run([self.bin / command[0], *command[1:]], self.folder)


def needed(requirements: Iterable[str]) -> Iterator[str]:
    """The names of distributions that are required, directly or not."""
    waiting, seen = list(requirements), set[str]()
    while waiting:
        requirement = Requirement(waiting.pop())
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in seen:
            seen.add(requirement.name)
            waiting += distribution(requirement.name).requires or ()
            yield requirement.name


def run(command: Sequence[str | Path], folder: Path, **variables: str) -> str:
    """What a command prints, run in a folder; it has to exit with 0."""
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
    assert done.returncode == 0, done.stdout[-2000:] + _telling(done.stderr)[-6000:]
    return done.stdout


def _telling(text: str) -> str:
    """What is not Spark's chatter: no INFO, no stack traces of the JVM."""
    lines = (line for line in text.splitlines() if " INFO " not in line)
    return "\n".join(line for line in lines if not line.startswith("\tat "))


def bare() -> dict[str, str]:
    """The variables of this process, without those that lead to its packages and its Spark."""
    return {name: text for name, text in os.environ.items() if not name.startswith(_LEADING)}
