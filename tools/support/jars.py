"""Java archives of Kafka, and of Spark's own Kafka connector and Avro, cached in ``.cache/``.

``python -m tools.support.jars all`` downloads them with the installed pyspark's resolver (Ivy).
"""

import fcntl
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_TIMEOUT_S = 600
_SPARK = """
import sys
from pyspark.java_gateway import launch_gateway
gateway = launch_gateway()
jvm = gateway.jvm
jvm.java.lang.System.setProperty("spark.jars.ivy", sys.argv[1])
# Ivy fails if the user's Maven repository contains only the descriptor of an artifact.
jvm.java.lang.System.setProperty("user.home", sys.argv[1])
for uri in sys.argv[2:]:
    jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(jvm.java.net.URI(uri))
gateway.shutdown()
"""
# Spark's resolver always omits the Scala library, so Ivy is called directly.
_IVY = """
import shutil
import sys
from pyspark.java_gateway import launch_gateway
gateway = launch_gateway()
jvm = gateway.jvm
jvm.java.lang.System.setProperty("user.home", sys.argv[1])
option = jvm.scala.Option.apply
repositories = jvm.java.lang.System.getProperty("spark.jars.repositories")
settings = jvm.org.apache.spark.util.MavenUtils.buildIvySettings(
    option(repositories), option(sys.argv[1]), True, jvm.java.lang.System.err
)
module = jvm.org.apache.ivy.core.module.id.ModuleRevisionId.newInstance(*sys.argv[3].split(":"))
options = jvm.org.apache.ivy.core.resolve.ResolveOptions()
options.setTransitive(False)
report = jvm.org.apache.ivy.Ivy.newInstance(settings).resolve(module, options, False)
for artifact in report.getAllArtifactsReports():
    shutil.copy(artifact.getLocalFile().getPath(), sys.argv[2])
gateway.shutdown()
"""
_SCALA = "org.scala-lang:scala-library:"
ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
MANIFEST = "manifest.json"
_SPARK_AVRO = {
    "3.5": "org.apache.spark:spark-avro_2.12:3.5.7",
    "4.0": "org.apache.spark:spark-avro_2.13:4.0.0",
    "4.1": "org.apache.spark:spark-avro_2.13:4.1.1",
}


class JarsError(RuntimeError):
    """The download failed or is incomplete; the message ends with the resolver's output."""


def _download(coordinates: Sequence[str], transitive: bool, into: Path) -> None:
    """Download archives with the installed pyspark's resolver, and copy them to `into`."""
    scala = [c for c in coordinates if c.startswith(_SCALA)]
    others = [c for c in coordinates if c not in scala]
    with tempfile.TemporaryDirectory(prefix="sks-ivy-") as ivy:
        query = f"?transitive={str(transitive).lower()}"
        _run_command([sys.executable, "-c", _SPARK, ivy, *(f"ivy://{c}{query}" for c in others)])
        for jar in (Path(ivy) / "jars").glob("*.jar"):
            shutil.copy(jar, into / jar.name)
        for library in scala:
            _run_command([sys.executable, "-c", _IVY, ivy, str(into), library])
    for organisation, artifact, number in (c.split(":") for c in others):
        name = f"{artifact}-{number}.jar"
        prefixed = into / f"{organisation}_{name}"
        if prefixed.is_file():
            prefixed.rename(into / name)
        for other in into.glob(f"{organisation}_{artifact}-[0-9]*.jar"):
            other.unlink()  # Another version, which another archive depends on.
    if transitive and not scala:
        _copy_scala(into)


def _copy_scala(into: Path) -> None:
    """Copy the Scala library, which Spark's resolver omits because pyspark includes it."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise JarsError("pyspark is not installed: run `make install`")
    for jar in (Path(pyspark.origin).parent / "jars").glob("scala-library-*.jar"):
        shutil.copy(jar, into / jar.name)


def _run_command(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
        encoding="utf-8",
    )
    if done.returncode:
        raise JarsError(f"{command[0]} failed ({done.returncode}):\n{done.stdout[-3000:]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """A folder of archives, specified by Maven coordinates, with or without dependencies."""

    name: str
    coordinates: tuple[str, ...]
    transitive: bool

    @property
    def folder(self) -> Path:
        return CACHE / "jars" / self.name

    @property
    def wanted(self) -> tuple[str, ...]:
        """The required file names: artifact-version.jar for each coordinate."""
        return tuple("{}-{}.jar".format(*c.split(":")[1:]) for c in self.coordinates)

    def paths(self) -> tuple[Path, ...]:
        return tuple(sorted(self.folder.glob("*.jar")))

    def classpath(self) -> str:
        return os.pathsep.join(map(str, self.paths()))


KAFKA = JarSet(
    name="kafka-4.3.1",
    coordinates=(
        "org.apache.kafka:kafka_2.13:4.3.1",
        "org.apache.kafka:kafka-tools:4.3.1",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    ),
    transitive=True,
)
OLD_KAFKA = {
    # The default ZooKeeper client, 3.4.13, cannot parse addresses formatted by Java 14 or later.
    "2.1.1": JarSet(
        name="kafka-2.1.1",
        coordinates=(
            "org.apache.kafka:kafka_2.12:2.1.1",
            "org.apache.zookeeper:zookeeper:3.5.9",
            "org.scala-lang:scala-library:2.12.7",
        ),
        transitive=True,
    ),
    "2.8.2": JarSet(
        name="kafka-2.8.2",
        coordinates=("org.apache.kafka:kafka_2.13:2.8.2", "org.slf4j:slf4j-reload4j:1.7.36"),
        transitive=True,
    ),
    "3.9.1": JarSet(
        name="kafka-3.9.1",
        coordinates=("org.apache.kafka:kafka_2.13:3.9.1", "org.slf4j:slf4j-reload4j:1.7.36"),
        transitive=True,
    ),
}
"""Kafka releases before 4.0 by number, with ZooKeeper."""
_SPARK_SINKS = {
    "3.5": JarSet(
        name="spark-sql-kafka-3.5.7",
        coordinates=(
            "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.7",
            "org.apache.kafka:kafka-clients:3.4.1",
            "org.apache.commons:commons-pool2:2.11.1",
        ),
        transitive=False,
    ),
    "4.0": JarSet(
        name="spark-sql-kafka-4.0.0",
        coordinates=(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
            "org.apache.kafka:kafka-clients:3.9.1",
            "org.apache.commons:commons-pool2:2.12.1",
        ),
        transitive=False,
    ),
    "4.1": JarSet(
        name="spark-sql-kafka-4.1.0",
        coordinates=(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
            "org.apache.kafka:kafka-clients:3.9.1",
            "org.apache.commons:commons-pool2:2.12.1",
        ),
        transitive=False,
    ),
}
"""Spark's own sink by the pyspark release; classes of 4.1 also load in later releases."""


def _spark_release() -> str:
    """Return the release whose archives the installed pyspark can load."""
    try:
        release = version("pyspark")[:3]
    except PackageNotFoundError:
        return "4.1"
    return release if release in _SPARK_SINKS else "4.1"


SPARK_SINK = _SPARK_SINKS[_spark_release()]
SPARK_AVRO = JarSet(
    name=f"spark-avro-{_SPARK_AVRO[_spark_release()].rpartition(':')[2]}",
    coordinates=(_SPARK_AVRO[_spark_release()],),
    transitive=False,
)
"""Archives of Spark's `to_avro`, for the same releases."""
SPARK_CONNECT = (
    JarSet(
        name="spark-connect-3.5.7",
        coordinates=("org.apache.spark:spark-connect_2.12:3.5.7",),
        transitive=False,
    ),
) * (_spark_release() == "3.5")
"""The server of Spark Connect, which pyspark contains since 4.0."""
ALL = (SPARK_SINK, SPARK_AVRO, *SPARK_CONNECT, *OLD_KAFKA.values())
"""The sets that only the other tests need."""


def ensure(jars: JarSet) -> JarSet:
    """Download a set unless it is complete. Several processes can call this concurrently.

    Raises:
        JarsError: the resolver failed, or archives are missing or damaged.
    """
    with _locked(jars):
        if _complete(jars):
            return jars
        with tempfile.TemporaryDirectory(dir=jars.folder.parent, prefix="fetch-") as temporary:
            _fetch(jars, Path(temporary))
    return jars


def _fetch(jars: JarSet, temporary: Path) -> None:
    fetched = temporary / "jars"
    fetched.mkdir()
    _download(jars.coordinates, jars.transitive, fetched)
    _write_manifest(jars, fetched)
    shutil.rmtree(jars.folder, ignore_errors=True)
    fetched.rename(jars.folder)


def _write_manifest(jars: JarSet, folder: Path) -> None:
    names = sorted(path.name for path in folder.glob("*.jar"))
    missing = set(jars.wanted).difference(names)
    damaged = [name for name in names if not zipfile.is_zipfile(folder / name)]
    if missing or damaged:
        raise JarsError(f"{jars.name}: missing archives: {missing}; damaged archives: {damaged}")
    (folder / MANIFEST).write_text(json.dumps(names, indent=1), encoding="utf-8")


def _complete(jars: JarSet) -> bool:
    """Return True if all archives in the manifest and no others exist."""
    manifest = jars.folder / MANIFEST
    if not manifest.is_file():
        return False
    names = list(json.loads(manifest.read_text(encoding="utf-8")))
    return names == [path.name for path in jars.paths()] and set(jars.wanted) <= set(names)


@contextmanager
def _locked(jars: JarSet) -> Iterator[None]:
    jars.folder.parent.mkdir(parents=True, exist_ok=True)
    with (jars.folder.parent / f"{jars.name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Download the sets of `make test`, or all: `python -m tools.support.jars [all]`."""
    for jars in (KAFKA, *(ALL if sys.argv[1:] == ["all"] else ())):
        count = len(ensure(jars).paths())
        print(f"{jars.name}: {count} archives in {jars.folder}")


if __name__ == "__main__":
    main()
