"""The program of docs/install.md that compiles pyspark.zip does, and leaves the rest as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING
from zipfile import ZipFile

from tools.docs.pages import DOCS

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = re.compile(r"^```python\n(import compileall\n.*?)^```$", re.MULTILINE | re.DOTALL)
SOURCE = "def name():\n    return name.__code__.co_filename\n"


def run(code: str, **environment: str) -> str:
    child = [sys.executable, "-c", code]
    everything = {**os.environ, **environment}
    done = subprocess.run(child, env=everything, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def program() -> str:
    (found,) = _BLOCK.findall((DOCS / "install.md").read_text(encoding="utf-8"))
    return str(found)


def archive_in(home: Path) -> Path:
    archive = home / "python" / "lib" / "pyspark.zip"
    archive.parent.mkdir(parents=True)
    with ZipFile(archive, "w") as made:
        made.writestr("somewhere/__init__.py", "")
        made.writestr("somewhere/module.py", SOURCE)
        made.writestr("somewhere/conditions.json", "{}")
    return archive


def test_workers_find_compiled_modules_with_the_same_names_in_tracebacks(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    shown = "import somewhere.module as m; print(m.__file__, m.name())"
    before = run(shown, PYTHONPATH=str(archive))
    run(program(), SPARK_HOME=str(tmp_path))
    after = run(shown, PYTHONPATH=str(archive))
    name = f"{archive}/somewhere/module.py"
    assert (before, after) == (f"{name} {name}", f"{name}c {name}")


def test_sources_and_data_stay(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    run(program(), SPARK_HOME=str(tmp_path))
    with ZipFile(archive) as found:
        assert found.read("somewhere/module.py").decode() == SOURCE
        assert found.read("somewhere/conditions.json") == b"{}"
