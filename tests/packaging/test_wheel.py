"""The wheel is complete and works in environments that contain only its requirements."""

from __future__ import annotations

import importlib.util
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from spark_kafka_sink import EmbeddedBroker
from tests.packaging.environment import Environment, bare, run
from tests.packaging.job import ROWS

if TYPE_CHECKING:
    from email.message import Message

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("job.py")
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SUBMIT = (
    *("--driver-memory", "600m", "--conf", "spark.executor.memory=600m"),
    *("--driver-java-options", JAVA, "--conf", f"spark.executor.extraJavaOptions={JAVA}"),
    *("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1"),
)
NO_SPARK = """
from spark_kafka_sink import EmbeddedBroker
with EmbeddedBroker(topics={"events": 1}, tls=True) as kafka:
    assert kafka.end_offsets("events") == [0]
try:
    from spark_kafka_sink import register
except ImportError as error:
    print(error)
"""
WITHOUT_PANDAS = """
from pyspark.sql import SparkSession
from spark_kafka_sink import ConfigError, write
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
try:
    write(spark.range(1).selectExpr("'a' AS value"), {"kafka.bootstrap.servers": "127.0.0.1:1"})
except ConfigError as error:
    print(error)
"""
WORKER_FILES = """
import sys
from pyspark.sql import SparkSession

def files(_):
    import py4j, pyspark
    return pyspark.__file__, py4j.__file__

settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
print(*spark.sparkContext.parallelize([1], 1).map(files).first())
spark.stop()
"""


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], ROOT)
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    """Build the wheel from the content of the sdist."""
    run(["tar", "-xzf", sdist], sdist.parent)
    source = sdist.parent / sdist.name.removesuffix(".tar.gz")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", sdist.parent], source)
    return next(sdist.parent.glob("*.whl"))


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def required(wheel: Path, extra: str = "") -> list[str]:
    """Return the requirements of the wheel, or of one of its extras."""
    requirements = map(Requirement, metadata(wheel).get_all("Requires-Dist", []))
    return [
        f"{requirement.name}{requirement.specifier}"
        for requirement in requirements
        if (requirement.marker is None) is not bool(extra)
        and (requirement.marker is None or requirement.marker.evaluate({"extra": extra}))
    ]


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Create an environment with the wheel and its requirements."""
    installation = Environment(tmp_path_factory.mktemp("job") / "environment")
    installation.link(required(wheel))
    installation.install(wheel)
    return installation


@pytest.fixture(scope="module")
def spark_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a Spark home like a distribution's, whose PySpark is unknown to pip."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    installed = Path(str(spec.origin)).parent
    home = tmp_path_factory.mktemp("spark")
    for name in ("bin", "jars"):
        (home / name).symlink_to(installed / name)
    library = home / "python" / "lib"
    library.mkdir(parents=True)
    for path in (installed / "python" / "lib").glob("py4j-*.zip"):
        (library / path.name).symlink_to(path)
    (library / "pyspark.zip").symlink_to(installed / "python" / "lib" / "pyspark.zip")
    (home / "python" / "pyspark").symlink_to(installed)
    return home


def test_contents_of_the_archives(wheel: Path, sdist: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.partition("/")[0] for name in names}
    conf = {path.name for path in (ROOT / "conf").iterdir()}
    modules = {str(path.relative_to(ROOT)) for path in ROOT.glob("spark_kafka_sink/**/*.py")}
    assert {re.sub(r"-[\d.]+\.dist", ".dist", top) for top in tops} == {
        *("spark_kafka_sink", "pyspark_kafkaprod.py", "spark_kafka_sink.dist-info"),
        *("spark_kafka_sink_workers.py", "spark_kafka_sink_workers.pth"),
    }
    others = {name for name in names if name.startswith("spark_kafka_sink/")} - modules
    assert others == {
        "spark_kafka_sink/py.typed",
        *(f"spark_kafka_sink/conf/{name}" for name in conf),
    }
    assert modules < names
    with tarfile.open(sdist) as archive:
        held = {Path(name).parts[1] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "docs"} < held
    assert not {"tests", "tools", ".cache", "notebooks"} & held


def test_metadata_names_the_requirements(wheel: Path) -> None:
    said = metadata(wheel)
    assert (said["Name"], said["Requires-Python"]) == ("spark-kafka-sink", ">=3.11")
    assert not [
        requirement
        for requirement in required(wheel)
        if re.match("pyspark|typer|rich|pandas", requirement)
    ]
    assert {"spark", "cli"} < set(said.get_all("Provides-Extra", []))


def test_missing_spark_is_reported_with_the_install_command(
    wheel: Path, environment: Environment
) -> None:
    assert f"pip install '{wheel}[spark]'" in environment.run("python", "-c", NO_SPARK)


def test_write_without_pandas(wheel: Path, tmp_path: Path) -> None:
    installation = Environment(tmp_path / "environment")
    installation.link([*required(wheel), "pyspark"])
    installation.install(wheel)
    assert "write(df, options) needs pandas" in installation.run("python", "-c", WITHOUT_PANDAS)


def test_command_line_and_its_extra(wheel: Path, environment: Environment) -> None:
    kafkaprod = str(environment.bin / "kafkaprod")
    done = subprocess.run([kafkaprod], capture_output=True, text=True, check=False, env=bare())
    assert done.returncode == 1
    assert f"pip install '{wheel}[cli]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    environment.link(required(wheel, "cli"))
    assert "doctor" in environment.run("kafkaprod", "--help")
    command = [kafkaprod, "broker", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bare()) as broker:
        assert broker.stdout is not None
        assert "ready on 127.0.0.1:" in broker.stdout.readline()
        broker.send_signal(signal.SIGINT)
        assert broker.stdout.read() == "kafkaprod broker stopped\n"
        assert broker.wait() == 0


def worker_files(environment: Environment, **variables: str) -> list[str]:
    """Return the files of PySpark and Py4J in a Python worker."""
    python = environment.bin / "python"
    settings = {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    return run([python, "-c", WORKER_FILES], environment.folder, **settings).split()


def test_workers_import_the_installed_pyspark(wheel: Path, tmp_path: Path) -> None:
    """Without the wheel, workers import the archives."""
    installation = Environment(tmp_path / "environment")
    installation.link([*required(wheel), *required(wheel, "spark")])
    assert all(".zip" in file for file in worker_files(installation))
    installation.install(wheel)
    assert not [file for file in worker_files(installation) if ".zip" in file]
    assert all(
        ".zip" in file for file in worker_files(installation, KAFKAPROD_KEEP_PYSPARK_ZIP="1")
    )


def test_workers_import_the_pyspark_of_a_distribution(
    environment: Environment, spark_home: Path
) -> None:
    python = str(environment.bin / "python")
    variables = {"SPARK_HOME": str(spark_home), "PYSPARK_PYTHON": python}
    (environment.folder / "files.py").write_text(WORKER_FILES)
    command = (spark_home / "bin" / "spark-submit", *SUBMIT, "files.py")
    pyspark, _ = run(command, environment.folder, **variables).split()
    assert pyspark == str(spark_home / "python" / "pyspark" / "__init__.py")


def submit(home: Path, folder: Path, python: str, *arguments: str | Path) -> list[str]:
    """Return the job's output: the package's path on the driver, and the persisted records."""
    command = [home / "bin" / "spark-submit", *SUBMIT, *arguments]
    spark = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python}
    return run(command, folder, **spark).split()


def test_packed_environment_with_a_distribution(
    environment: Environment, spark_home: Path, tmp_path: Path
) -> None:
    """Packed as in docs/install.md, without PySpark.

    The path names the folder into which the executor, elsewhere, unpacks it.
    """
    archive = tmp_path / "job.tar.gz"
    run(["tar", "-C", environment.folder, "-czf", archive, "bin", "lib", "pyvenv.cfg"], tmp_path)
    ship = ("--master", "local-cluster[1,1,600]", "--archives", f"{archive}#environment")
    with EmbeddedBroker(topics={"events": 1}) as kafka:
        file, persisted = submit(
            spark_home,
            environment.folder.parent,
            "./environment/bin/python",
            *ship,
            JOB,
            kafka.bootstrap_servers,
        )
        assert file.startswith(str(environment.folder))
        assert [int(persisted)] == kafka.end_offsets("events") == [ROWS]


def test_shipped_with_py_files(wheel: Path, spark_home: Path, tmp_path: Path) -> None:
    """The nodes have the requirements; Spark adds a zip file to the path, but not a wheel."""
    nodes = Environment(tmp_path / "nodes")
    nodes.link(required(wheel))
    shipped = shutil.copy(wheel, tmp_path / "spark_kafka_sink.zip")
    with EmbeddedBroker(topics={"events": 1}) as kafka:
        file, persisted = submit(
            spark_home,
            tmp_path,
            str(nodes.bin / "python"),
            *("--master", "local[1]", "--py-files", shipped),
            *(JOB, kafka.bootstrap_servers, "register"),
        )
        assert "spark_kafka_sink.zip/spark_kafka_sink" in file
        assert [int(persisted)] == kafka.end_offsets("events") == [ROWS]
