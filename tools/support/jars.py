"""Java archives of a real Kafka and of Spark's own Kafka sink, cached in ``.cache/``.

``python -m tools.support.jars`` fills the cache. Maven downloads the archives if it is on the path,
Spark's own resolver otherwise; their own configuration determines the registry.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tools.support import jar_resolvers

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
MANIFEST = "manifest.json"


class JarsError(RuntimeError):
    """The archives could not be downloaded, or the download is incomplete."""


class Resolver(StrEnum):
    """Resolver to use: AUTO is Maven if `mvn` is on the path, else Spark."""

    AUTO = "auto"
    MAVEN = "maven"
    SPARK = "spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """A folder of archives: Maven coordinates, and whether to include their dependencies."""

    name: str
    coordinates: tuple[str, ...]
    transitive: bool
    least: int

    @property
    def folder(self) -> Path:
        return CACHE / "jars" / self.name

    @property
    def wanted(self) -> tuple[str, ...]:
        """Required file names: artifact-version.jar of each coordinate."""
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
    least=80,
)
OLD_KAFKA = {
    # Its own ZooKeeper client, 3.4.13, cannot parse addresses formatted by Java 14 and later.
    "2.1.1": JarSet(
        name="kafka-2.1.1",
        coordinates=(
            "org.apache.kafka:kafka_2.12:2.1.1",
            "org.apache.zookeeper:zookeeper:3.5.9",
            "org.scala-lang:scala-library:2.12.7",
        ),
        transitive=True,
        least=24,
    ),
    "2.8.2": JarSet(
        name="kafka-2.8.2",
        coordinates=(
            "org.apache.kafka:kafka_2.13:2.8.2",
            "org.slf4j:slf4j-reload4j:1.7.36",
        ),
        transitive=True,
        least=36,
    ),
    "3.9.1": JarSet(
        name="kafka-3.9.1",
        coordinates=(
            "org.apache.kafka:kafka_2.13:3.9.1",
            "org.slf4j:slf4j-reload4j:1.7.36",
        ),
        transitive=True,
        least=50,
    ),
}
"""Releases before 4.0 by number, each with its own version of ZooKeeper except 2.1.1."""
# One set works with every tested pyspark: the sink's classes of 4.1 also load in later 4.x.
SPARK_SINK = JarSet(
    name="spark-sql-kafka-4.1.0",
    coordinates=(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    transitive=False,
    least=4,
)


def ensure(jars: JarSet, resolver: Resolver = Resolver.AUTO) -> JarSet:
    """Download `jars` unless complete; safe to call from several processes at once.

    Raises:
        JarsError: no resolver is installed, it failed, or archives are missing or damaged.
    """
    with _locked(jars):
        if _complete(jars):
            return jars
        with tempfile.TemporaryDirectory(dir=jars.folder.parent, prefix="fetch-") as temporary:
            _fetch(jars, Path(temporary), resolver)
    return jars


def _fetch(jars: JarSet, temporary: Path, resolver: Resolver) -> None:
    fetched = temporary / "jars"
    fetched.mkdir()
    try:
        _choose(resolver)(jars.coordinates, jars.transitive, fetched)
    except jar_resolvers.ResolverError as error:
        raise JarsError(f"{jars.name}: {error}") from error
    _write_manifest(jars, fetched)
    shutil.rmtree(jars.folder, ignore_errors=True)
    fetched.rename(jars.folder)


def _choose(resolver: Resolver) -> jar_resolvers.Resolve:
    if resolver is Resolver.AUTO:
        resolver = Resolver.MAVEN if shutil.which("mvn") else Resolver.SPARK
    return jar_resolvers.by_maven if resolver is Resolver.MAVEN else jar_resolvers.by_spark


def _write_manifest(jars: JarSet, folder: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in sorted(folder.glob("*.jar"))}
    missing = [name for name in jars.wanted if name not in sizes]
    damaged = [name for name in sizes if not zipfile.is_zipfile(folder / name)]
    if missing or damaged or len(sizes) < jars.least:
        raise JarsError(
            f"{jars.name}: {len(sizes)} archives came, at least {jars.least} are needed; "
            f"missing: {missing}; damaged: {damaged}"
        )
    (folder / MANIFEST).write_text(json.dumps(sizes, indent=1))


def _complete(jars: JarSet) -> bool:
    """Return True if every archive of the manifest exists with the right size."""
    manifest = jars.folder / MANIFEST
    if not manifest.is_file():
        return False
    sizes: dict[str, int] = json.loads(manifest.read_text())
    present = {path.name: path.stat().st_size for path in jars.paths()}
    return present == sizes and all(name in sizes for name in jars.wanted)


@contextmanager
def _locked(jars: JarSet) -> Iterator[None]:
    jars.folder.parent.mkdir(parents=True, exist_ok=True)
    with (jars.folder.parent / f"{jars.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Download all sets: `python -m tools.support.jars [maven|spark]`."""
    resolver = Resolver(sys.argv[1]) if len(sys.argv) > 1 else Resolver.AUTO
    for jars in (KAFKA, *OLD_KAFKA.values(), SPARK_SINK):
        count = len(ensure(jars, resolver).paths())
        sys.stdout.write(f"{jars.name}: {count} archives in {jars.folder}\n")


if __name__ == "__main__":
    main()
