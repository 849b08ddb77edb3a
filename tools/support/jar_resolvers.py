"""Download archives by Maven coordinates, with Maven or with Spark's resolver (Ivy)."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

Resolve = Callable[[Sequence[str], bool, Path], None]

_TIMEOUT_S = 600
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>jars</artifactId>
<version>1</version><dependencies>{}</dependencies></project>
"""
_DEPENDENCY = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version>{}</dependency>"""
_ALONE = """<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>
</exclusions>"""
_SPARK = """
import sys
from pyspark.java_gateway import launch_gateway
gateway = launch_gateway()
jvm = gateway.jvm
jvm.java.lang.System.setProperty("spark.jars.ivy", sys.argv[1])
# Ivy gives up on an artifact whose descriptor alone lies in the user's Maven repository.
jvm.java.lang.System.setProperty("user.home", sys.argv[1])
for uri in sys.argv[2:]:
    jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(jvm.java.net.URI(uri))
gateway.shutdown()
"""
# Spark's resolver always omits the Scala library; Ivy itself does not.
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


class ResolverError(RuntimeError):
    """The resolver is not installed or failed; the message ends with its output."""


def by_maven(coordinates: Sequence[str], transitive: bool, into: Path) -> None:
    """Copy the archives of `coordinates` into the folder `into` with `mvn`."""
    if shutil.which("mvn") is None:
        raise ResolverError("`mvn` is not on the path: install Maven, or let Spark resolve")
    with tempfile.TemporaryDirectory(prefix="sks-mvn-") as project:
        extra = "" if transitive else _ALONE
        dependencies = "".join(_DEPENDENCY.format(*c.split(":"), extra) for c in coordinates)
        (Path(project) / "pom.xml").write_text(_POM.format(dependencies))
        _run(
            ["mvn", "-q", "-B", "-f", f"{project}/pom.xml", "dependency:copy-dependencies"]
            + [f"-DoutputDirectory={into}", "-DincludeScope=runtime"]
        )


def by_spark(coordinates: Sequence[str], transitive: bool, into: Path) -> None:
    """Copy the archives of `coordinates` into `into` with the installed pyspark's resolver."""
    scala = [c for c in coordinates if c.startswith(_SCALA)]
    others = [c for c in coordinates if c not in scala]
    with tempfile.TemporaryDirectory(prefix="sks-ivy-") as ivy:
        query = f"?transitive={str(transitive).lower()}"
        _run([sys.executable, "-c", _SPARK, ivy, *(f"ivy://{c}{query}" for c in others)])
        for jar in (Path(ivy) / "jars").glob("*.jar"):
            shutil.copy(jar, into / jar.name)
        for library in scala:
            _run([sys.executable, "-c", _IVY, ivy, str(into), library])
    for organisation, artifact, version in (c.split(":") for c in others):
        name = f"{artifact}-{version}.jar"
        prefixed = into / f"{organisation}_{name}"
        if prefixed.is_file():
            prefixed.rename(into / name)
        for other in into.glob(f"{organisation}_{artifact}-[0-9]*.jar"):
            other.unlink()  # A dependency of another archive requires a different version.
    if transitive and not scala:
        _copy_scala(into)


def _copy_scala(into: Path) -> None:
    """Copy the Scala library, which Spark's resolver omits because pyspark includes it."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise ResolverError("pyspark is not installed: `make install`")
    for jar in (Path(pyspark.origin).parent / "jars").glob("scala-library-*.jar"):
        shutil.copy(jar, into / jar.name)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise ResolverError(f"{command[0]} failed ({done.returncode}):\n{done.stdout[-3000:]}")
