"""A real schema registry: Apicurio, from Maven Central, with Confluent's REST API."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import time
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

from filelock import FileLock

from tools.support.jars import CACHE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = "3.0.9"
_URL = (
    "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/"
    f"{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
)
_FOLDER = CACHE / "jars" / f"apicurio-{VERSION}"
_JAR = f"apicurio-registry-app-{VERSION}-runner.jar"
_START_S = 120


@contextmanager
def apicurio(port: int, log: Path) -> Iterator[str]:
    """Run the registry in memory; yield the URL of Confluent's API."""
    _install()
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
    command = ["java", *options, f"-Dquarkus.http.port={port}", "-jar", _JAR]
    url = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=_FOLDER, stdout=output, stderr=output)
        try:
            _await(f"{url}/subjects", process)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _install() -> None:
    with FileLock(f"{_FOLDER}.lock"):
        if (_FOLDER / _JAR).is_file():
            return
        shutil.rmtree(_FOLDER, ignore_errors=True)
        _FOLDER.mkdir(parents=True)
        with (
            urllib.request.urlopen(_URL, timeout=300) as response,
            tarfile.open(fileobj=response, mode="r|gz") as archive,
        ):
            archive.extractall(_FOLDER, filter="data")


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("Apicurio did not start")
