"""A JVM with Kafka's own classes on its classpath, reached through PySpark's Py4J."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tests.support.kafka.jars import KAFKA, ensure
from tools.checks.needs import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def kafka_jvm() -> Iterator[Jvm]:
    """Start the JVM (half a second) and end it; it also ends when this process does."""
    port, token, process = launch_gateway(
        jarpath=_py4j_archive(),
        classpath=ensure(KAFKA).classpath(),
        javaopts=["-XX:+UseSerialGC", "-Xmx512m"],
        java_path=find_java() or "java",
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield Jvm(gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.kill()
        process.wait()


def _py4j_archive() -> str:
    """The archive that pyspark brings."""
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        raise RuntimeError("pyspark is not installed: `make install`")
    return str(next((Path(pyspark.origin).parent / "jars").glob("py4j-*.jar")))


class Jvm:
    """Java packages by name, and the few conversions that Py4J leaves to its caller."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway
        common = gateway.jvm.org.apache.kafka.common
        self.common: Any = common
        self.utils: Any = common.utils.Utils
        self.packages: Any = gateway.jvm

    def array(self, element: Any, items: Sequence[Any]) -> Any:
        """A Java array of objects of the class `element`."""
        made = self._gateway.new_array(element, len(items))
        for index, item in enumerate(items):
            made[index] = item
        return made

    def buffer(self, data: bytes) -> Any:
        """A ByteBuffer over a copy of `data`."""
        return self.packages.java.nio.ByteBuffer.wrap(data)

    def data(self, buffer: Any) -> bytes:
        """What is left in a ByteBuffer."""
        return bytes(self.utils.toArray(buffer))

    def nullable(self, buffer: Any) -> bytes | None:
        """As `data`; null stays None."""
        return None if buffer is None else self.data(buffer)

    def murmur2(self, key: bytes) -> int:
        """`Utils.murmur2`: a signed 32-bit hash."""
        return int(self.utils.murmur2(key))

    def partition_of(self, key: bytes, partitions: int) -> int:
        """The partition that a Java producer chooses for a key."""
        partitioner = self.packages.org.apache.kafka.clients.producer.internals.BuiltInPartitioner
        return int(partitioner.partitionForKey(key, partitions))
