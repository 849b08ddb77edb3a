"""The producers with which the core is compared: Kafka's ProducerPerformance, and librdkafka in C.

`python -m tools.benchmarks.core.contestants JOB` runs ProducerPerformance. librdkafka is part of
confluent-kafka. `librdkafka_bench.c` requires a C compiler, but no headers.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from tools.benchmarks.kafka import new_topics
from tools.benchmarks.payload import FOLDER
from tools.benchmarks.results import Sample, peak_mib, python, run_contestant, tree_cpu_s
from tools.support.java import Jvm, kafka_jvm


class Kind(StrEnum):
    """Kind of record: plain, with a key, or with a key and two headers."""

    PLAIN = "null keys"
    KEYED = "keyed"
    HEADERS = "keyed, two headers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Send `warmup` records and `records` measured records from the lines of a payload file.

    `options` are settings of the producer, with the producer's own names. Only the core supports
    kinds other than plain records.
    """

    bootstrap_servers: str
    topic: str
    payload: Path
    warmup: int
    records: int
    options: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = Kind.PLAIN

    def to_json(self) -> str:
        """Serialize the job for a command line."""
        return json.dumps({**asdict(self), "payload": str(self.payload)})

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Parse the output of `to_json`."""
        job = cls(**json.loads(text))
        return replace(job, payload=Path(job.payload), kind=Kind(job.kind))


_OPTIONS = ["-server", "-Xmx512m", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
"""JVM options of kafka-producer-perf-test.sh and kafka-run-class.sh."""


def run_java(job: Job) -> Mapping[str, float]:
    """Run ProducerPerformance twice in one JVM: a warm-up and the measured run.

    The start of the JVM and its first compilations are not measured.
    """
    with kafka_jvm(_OPTIONS) as jvm:
        _send(jvm, job, job.warmup)
        started, used = time.perf_counter(), tree_cpu_s(jvm.process_id)
        _send(jvm, job, job.records)
        seconds, total = time.perf_counter() - started, tree_cpu_s(jvm.process_id)
        figures = {"seconds": seconds, "cpu_s": total - used, "total_cpu_s": total}
        return {"records": job.records, "peak_mib": peak_mib(jvm.process_id), **figures}


def _send(jvm: Jvm, job: Job, records: int) -> None:
    line = ["--bootstrap-server", job.bootstrap_servers, "--topic", job.topic]
    line += ["--num-records", str(records), "--throughput", "-1"]
    line += ["--payload-file", str(job.payload), "--reporting-interval", "600000"]
    for name, value in job.options.items():
        line += ["--command-property", f"{name}={value}"]
    arguments = jvm.array(jvm.packages.String, line)
    jvm.packages.org.apache.kafka.tools.ProducerPerformance.main(arguments)


SOURCE = Path(__file__).with_name("librdkafka_bench.c")


class NoCompilerError(RuntimeError):
    """There is no C compiler, or the compiler failed. The message says what to install."""


def librdkafka_command(job: Job) -> list[str]:
    """Return the command line that runs a job."""
    settings = {"bootstrap.servers": job.bootstrap_servers, **job.options}
    arguments = [job.topic, str(job.payload), str(job.warmup), str(job.records)]
    options = (f"{name}={value}" for name, value in settings.items())
    return [str(build_librdkafka()), str(_library()), *arguments, *options]


def build_librdkafka() -> Path:
    """Return the path of the program. Compile it if it is missing or older than its source.

    Raises:
        NoCompilerError: there is no C compiler, or the compiler failed.
    """
    program = FOLDER / SOURCE.stem
    if program.exists() and program.stat().st_mtime >= SOURCE.stat().st_mtime:
        return program
    FOLDER.mkdir(parents=True, exist_ok=True)
    line = [_compiler(), "-O2", "-Wall", "-o", str(program), str(SOURCE), "-ldl"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompilerError(f"{' '.join(line)} failed:\n{done.stderr}")
    return program


def _compiler() -> str:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise NoCompilerError("librdkafka in C needs a C compiler: apt-get install gcc libc6-dev")
    return compiler


def _library() -> Path:
    spec = importlib.util.find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    folders = (package.with_name("confluent_kafka.libs"), package / ".dylibs")
    return next(path for folder in folders for path in folder.glob("librdkafka*"))


SAFE = {"acks": "all", "enable.idempotence": "true"}
BATCHES = {"batch.size": "1048576", "linger.ms": "50"}
LIBRDKAFKA_QUEUE = {
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "1048576",
    "batch.num.messages": "100000",
}
OURS, LIBRDKAFKA = "kafkaprod core", "librdkafka in C"
JAVA_DEFAULTS, JAVA = "Java, defaults", "Java, 1 MiB batches"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A producer and its settings."""

    name: str
    command: Callable[[Job], list[str]]
    options: Mapping[str, str] = field(default_factory=lambda: {**SAFE, **BATCHES})

    def send(
        self,
        bootstrap_servers: str,
        payload: Path,
        records: int,
        options: Mapping[str, str] | None = None,
        *,
        warmup: int = 0,
        kind: Kind = Kind.PLAIN,
    ) -> Sample:
        """Send the records of a file to a new topic, after a warm-up with an eighth of them.

        `options` replace the contestant's. `bootstrap.servers` can be another listener.
        """
        warmup = warmup or records // 8
        settings = {"bootstrap.servers": bootstrap_servers, **self.options, **(options or {})}
        with new_topics(bootstrap_servers, warmup + records) as (topic,):
            job = Job(
                bootstrap_servers=settings.pop("bootstrap.servers"),
                topic=topic,
                payload=payload,
                warmup=warmup,
                records=records,
                options=settings,
                kind=kind,
            )
            return run_contestant(self.command(job))


def _java(job: Job) -> list[str]:
    return python("tools.benchmarks.core.contestants", job.to_json())


SINK = Contestant(
    name=OURS, command=lambda job: python("tools.benchmarks.core.ours", job.to_json())
)
CONTESTANTS = (
    SINK,
    Contestant(
        name=LIBRDKAFKA,
        command=librdkafka_command,
        options={**SAFE, **BATCHES, **LIBRDKAFKA_QUEUE},
    ),
    Contestant(name=JAVA, command=_java),
    Contestant(name=JAVA_DEFAULTS, command=_java, options=SAFE),
)


def present(log: Callable[[str], None], *names: str) -> list[Contestant]:
    """Return the contestants with these names, without librdkafka if it could not be compiled."""
    found = [one for one in CONTESTANTS if one.name in names]
    try:
        build_librdkafka()
    except NoCompilerError as error:
        log(f"librdkafka is omitted: {error}")
        return [one for one in found if one.name != LIBRDKAFKA]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run_java(Job.from_json(sys.argv[1]))) + "\n")
