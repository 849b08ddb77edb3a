"""Java processes that are killed with their parent process, and access to a JVM with Py4J."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tools.checks.needs import find_java
from tools.support.jars import KAFKA, JarSet, ensure

_LAUNCHER = Path(__file__).with_name("launcher.py")
QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options of a JVM that runs shortly: compilation would take most of its time."""
_QUICK = (*QUICK_JVM, "-Xmx256m")


class JavaError(RuntimeError):
    """Java is missing or too old, or a Java tool failed; the message ends with its output."""


def command(
    main: str, arguments: Sequence[str], options: Sequence[str] = _QUICK, jars: JarSet = KAFKA
) -> list[str]:
    """Return the command line that runs a class of an archive; it is killed with this process.

    Raises:
        JavaError: Java is not installed.
    """
    java = find_java()
    if java is None:
        raise JavaError("Java is not on the PATH")
    classpath = ensure(jars).classpath()
    return tied([java, *options, "-cp", classpath, main, *arguments])


def tied(command_line: Sequence[str]) -> list[str]:
    """Wrap a command line so that its process is killed when this process exits."""
    return [sys.executable, "-S", "-E", str(_LAUNCHER), str(os.getpid()), *command_line]


def run_tool(main: str, *arguments: str, timeout_s: float = 120) -> bytes:
    """Run a Kafka tool and return its standard output.

    Raises:
        JavaError: the exit status of the tool is not 0.
    """
    done = subprocess.run(
        command(main, arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    if done.returncode:
        printed = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise JavaError(f"{main} failed ({done.returncode}):\n{printed}")
    return done.stdout


@contextmanager
def kafka_jvm(options: Sequence[str] = ("-XX:+UseSerialGC", "-Xmx512m")) -> Iterator[Jvm]:
    """Start a JVM (takes half a second), and stop it on exit or when this process exits."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    port, token, process = launch_gateway(
        jarpath=_py4j_archive(),
        classpath=ensure(KAFKA).classpath(),
        javaopts=list(options),
        java_path=find_java() or "java",
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    _convert_only_sparks_errors()
    try:
        yield Jvm(gateway, process.pid)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.kill()
        process.wait()


@cache
def _convert_only_sparks_errors() -> None:
    """Keep PySpark from converting the exceptions of other JVMs in a process with a session.

    PySpark passes the id of the Java exception to Spark's JVM, where it is a different object.
    """
    from pyspark import SparkContext
    from pyspark.errors.exceptions import captured

    convert = captured.convert_exception

    def of_spark(e: Any) -> captured.CapturedException:
        gateway: Any = SparkContext._gateway
        if gateway is not None and e._gateway_client is gateway._gateway_client:
            return convert(e)
        return captured.UnknownException(desc="", stackTrace="", cause=None)

    captured.convert_exception = of_spark


def _py4j_archive() -> str:
    """Return the Py4J archive that pyspark includes."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise RuntimeError("pyspark is not installed: run `make install`")
    return str(next((Path(pyspark.origin).parent / "jars").glob("py4j-*.jar")))


class Jvm:
    """Access to Java packages, and conversions that Py4J does not provide."""

    def __init__(self, gateway: Any, process_id: int) -> None:
        self._gateway = gateway
        self.process_id = process_id
        common = gateway.jvm.org.apache.kafka.common
        self.common: Any = common
        self.utils: Any = common.utils.Utils
        self.packages: Any = gateway.jvm

    def array(self, element: Any, items: Sequence[Any]) -> Any:
        """Return a Java array of `items`, which are objects of the class `element`."""
        java_array = self._gateway.new_array(element, len(items))
        for index, item in enumerate(items):
            java_array[index] = item
        return java_array

    def buffer(self, data: bytes) -> Any:
        """Return a ByteBuffer with a copy of `data`."""
        return self.packages.java.nio.ByteBuffer.wrap(data)

    def data(self, buffer: Any) -> bytes:
        """Return the remaining bytes of a ByteBuffer."""
        return bytes(self.utils.toArray(buffer))

    def nullable(self, buffer: Any) -> bytes | None:
        """Return the remaining bytes of a ByteBuffer, or None for null."""
        return None if buffer is None else self.data(buffer)

    def murmur2(self, key: bytes) -> int:
        """Return the signed 32-bit hash of a key, computed by Kafka's `Utils.murmur2`."""
        return int(self.utils.murmur2(key))

    def partition_of(self, key: bytes, partitions: int) -> int:
        """Return the partition that a Java producer chooses for a key."""
        partitioner = self.packages.org.apache.kafka.clients.producer.internals.BuiltInPartitioner
        return int(partitioner.partitionForKey(key, partitions))
