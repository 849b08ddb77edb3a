"""Spark workers import PySpark from its folder, in real Python processes with a small PySpark."""

import os
import shutil
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from spark_kafka_sink_workers import KEEP_ARCHIVE

ROOT = Path(__file__).resolve().parents[2]
HOOK = ("spark_kafka_sink_workers.py", "spark_kafka_sink_workers.pth")
SHOWN = "import py4j, pyspark; print(pyspark.__file__); print(py4j.__file__)\n"
IS_LOADED = "import sys; print('spark_kafka_sink_workers' in sys.modules)"
WORKER = ("-m", "pyspark.daemon", "pyspark.worker")
SECRET = "PYTHON_WORKER_FACTORY_SECRET"


def package(name: str, folder: Path, release: str = "4.3.0") -> Path:
    """Write a package with a release and a daemon that prints the import paths."""
    files = {"__init__": "", "version": f"__version__ = {release!r}\n", "daemon": SHOWN}
    root = folder / name
    root.mkdir(parents=True)
    for module, text in files.items():
        (root / f"{module}.py").write_text(text)
    return root


def archive(path: Path, source: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as zip_file:
        for file in source.glob("*.py"):
            zip_file.write(file, f"{source.name}/{file.name}")
    return str(path)


class Installation:
    """A virtual environment with PySpark, Py4J and their archives, as installed by pip."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        self.packages = next((folder / "lib").glob("python3*")) / "site-packages"
        for name in HOOK:
            shutil.copy(ROOT / name, self.packages)
        pyspark, py4j = package("pyspark", self.packages), package("py4j", self.packages)
        library = pyspark / "python" / "lib"
        self.path = [
            archive(library / "pyspark.zip", pyspark),
            archive(library / "py4j-0.10-src.zip", py4j),
        ]

    def run(
        self,
        arguments: Sequence[str] = WORKER,
        path: Sequence[str] | None = None,
        *,
        spark: bool = True,
        keep: str = "",
    ) -> list[str]:
        """Return the lines that a process prints; it must not write to stderr."""
        inherited = {name: text for name, text in os.environ.items() if "PYTHON" not in name}
        done = subprocess.run(
            [self.python, *arguments],
            env={
                **inherited,
                "PYTHONPATH": os.pathsep.join(self.path if path is None else path),
                **({SECRET: "secret"} if spark else {}),
                KEEP_ARCHIVE: keep,
            },
            cwd=self.python.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    def folders(self) -> list[str]:
        return [str(self.packages / name / "__init__.py") for name in ("pyspark", "py4j")]


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path / "environment")


def in_archives(path: Sequence[str]) -> list[str]:
    return [f"{path[0]}/pyspark/__init__.py", f"{path[1]}/py4j/__init__.py"]


@pytest.mark.parametrize("arguments", [WORKER, ("-m", "pyspark.daemon")])
def test_worker_imports_the_folders(installation: Installation, arguments: tuple[str, ...]) -> None:
    assert installation.run(arguments) == installation.folders()


def test_environment_variable_keeps_the_archives(installation: Installation) -> None:
    assert installation.run(keep="1") == in_archives(installation.path)
    assert installation.run(keep="0") == installation.folders()


def test_other_processes_do_not_load_the_module(installation: Installation) -> None:
    assert installation.run(("-c", IS_LOADED)) == ["False"]
    assert installation.run(("-c", SHOWN)) == in_archives(installation.path)


def test_process_not_started_by_spark_keeps_the_archives(installation: Installation) -> None:
    assert installation.run(spark=False) == in_archives(installation.path)


@pytest.mark.parametrize("name", ["pyspark", "py4j"])
def test_another_release_is_not_used(installation: Installation, name: str) -> None:
    (installation.packages / name / "version.py").write_text("__version__ = '4.2.0'\n")
    expected = [
        packed if name in Path(folder).parent.name else folder
        for folder, packed in zip(
            installation.folders(), in_archives(installation.path), strict=True
        )
    ]
    assert installation.run() == expected


def test_another_installation_is_not_used(installation: Installation, tmp_path: Path) -> None:
    other = package("pyspark", tmp_path / "other")
    path = [archive(other / "python" / "lib" / "pyspark.zip", other), installation.path[1]]
    assert installation.run(path=path) == in_archives(path)


def test_another_package_earlier_in_the_path_is_not_used(
    installation: Installation, tmp_path: Path
) -> None:
    package("pyspark", tmp_path / "other")
    path = [*installation.path, str(tmp_path / "other")]
    assert installation.run(path=path)[0] == in_archives(path)[0]


def test_folder_of_a_distribution_is_used(installation: Installation, tmp_path: Path) -> None:
    """It precedes a PySpark installed by pip, like the distribution's archive."""
    unpacked = package("pyspark", tmp_path / "spark" / "python", "4.3.1")
    library = tmp_path / "spark" / "python" / "lib"
    py4j = archive(library / "py4j-0.10-src.zip", package("py4j", tmp_path / "source"))
    path = [archive(library / "pyspark.zip", unpacked), py4j]
    assert installation.run(path=path) == [str(unpacked / "__init__.py"), in_archives(path)[1]]
    (unpacked / "version.py").write_text("__version__ = '4.3.2'\n")
    assert installation.run(path=path) == in_archives(path)


def test_module_never_fails(installation: Installation) -> None:
    (installation.packages / "pyspark" / "version.py").unlink()
    assert installation.run() == in_archives(installation.path)
    Path(installation.path[0]).write_bytes(b"")
    assert installation.run() == [installation.folders()[0], in_archives(installation.path)[1]]
    assert installation.run(path=["pyspark.zip"]) == installation.folders()
