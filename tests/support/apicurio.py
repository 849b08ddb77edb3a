"""A real schema registry: Apicurio, from Maven Central, with Confluent's REST API."""

import shutil
import socket
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from tools.support.jars import CACHE
from tools.support.waiting import poll

VERSIONS = ("3.0.9", "2.6.13.Final")
"""The newest releases of both lines that run on Java 17."""
_MAVEN = "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app"
_START_S = 120


@contextmanager
def apicurio(version: str, log: Path) -> Iterator[str]:
    """Run the registry in memory; yield the URL of Confluent's API."""
    folder = _installed(version)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
    jar = f"apicurio-registry-app-{version}-runner.jar"
    command = ["java", *options, f"-Dquarkus.http.port={port}", "-jar", jar]
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        try:
            _await(f"{url}/subjects", process)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _installed(version: str) -> Path:
    folder = CACHE / "jars" / f"apicurio-{version}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if (folder / "lib").is_dir():
            return folder
        archive = f"{_MAVEN}/{version}/apicurio-registry-app-{version}-all.tar.gz"
        with (
            TemporaryDirectory(dir=folder.parent) as unpacked,
            urllib.request.urlopen(archive, timeout=300) as response,
            tarfile.open(fileobj=response, mode="r|gz") as content,
        ):
            content.extractall(unpacked, filter="data")
            # Moved when it is complete, because a download can end early.
            shutil.copytree(unpacked, f"{folder}.part", dirs_exist_ok=True)
            Path(f"{folder}.part").rename(folder)
    return folder


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    def has_started_or_ended() -> bool:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return True
        return process.poll() is not None

    assert poll(has_started_or_ended, _START_S, 0.2), "Apicurio did not start"
    assert process.poll() is None, "Apicurio has ended"
