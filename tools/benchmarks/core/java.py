"""Kafka's own ProducerPerformance in a warm JVM: `python -m tools.benchmarks.core.java JOB`.

The JVM runs the tool once as a warm-up and once to be measured, so that neither its start nor its
first compilations count. CPU time is that of the JVM's process.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from tools.benchmarks.core.job import Job
from tools.benchmarks.processes import peak_mib, tree_cpu_s
from tools.checks.needs import find_java
from tools.support.jars import KAFKA, ensure

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIONS = ["-server", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
"""As kafka-producer-perf-test.sh and kafka-run-class.sh start it."""


def _launch() -> tuple[JavaGateway, Any]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    archive = next((Path(spec.origin).parent / "jars").glob("py4j-*.jar"))
    port, token, process = launch_gateway(
        jarpath=str(archive),
        classpath=ensure(KAFKA).classpath(),
        javaopts=_OPTIONS,
        java_path=find_java() or "java",
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token)), process


def _send(gateway: JavaGateway, job: Job, records: int) -> None:
    line = [
        "--bootstrap-server",
        job.bootstrap_servers,
        "--topic",
        job.topic,
        "--num-records",
        str(records),
        "--throughput",
        "-1",
    ]
    line += ["--payload-file", str(job.payload), "--reporting-interval", "600000"]
    for name, value in job.options.items():
        line += ["--command-property", f"{name}={value}"]
    arguments = gateway.new_array(gateway.jvm.String, len(line))
    for index, item in enumerate(line):
        arguments[index] = item
    gateway.jvm.org.apache.kafka.tools.ProducerPerformance.main(arguments)


def run(job: Job) -> Mapping[str, float]:
    """Warm up, send, and measure from the tool's start to its end."""
    gateway, process = _launch()
    try:
        _send(gateway, job, job.warmup)
        started, used = time.perf_counter(), tree_cpu_s(process.pid)
        _send(gateway, job, job.records)
        seconds, total = time.perf_counter() - started, tree_cpu_s(process.pid)
        peak = peak_mib(process.pid)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.kill()
        process.wait()
    return {
        "records": job.records,
        "seconds": seconds,
        "cpu_s": total - used,
        "peak_mib": peak,
        "total_cpu_s": total,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(Job.from_json(sys.argv[1]))) + "\n")
