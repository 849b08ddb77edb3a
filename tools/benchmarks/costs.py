"""The costs of exactly-once delivery and of encryption, with and without them in turn.

- Exactly-once delivery: the same jobs and streams, and the time that the driver needs to end many
  open transactions of tasks.
- Encryption: the same records, codec and broker, with PLAINTEXT and SSL. The producer core is
  compared with librdkafka, and whole Spark writes are compared with Spark's own sink. Both
  listeners are on the same broker, which decrypts on the same machine. CPU figures are for the
  client only.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import quantiles

from spark_kafka_sink.config.exactly_once import DeliveryGuarantee
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.admin.blocking_client import BlockingClient
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from tools.benchmarks import tables
from tools.benchmarks.core import contestants as core
from tools.benchmarks.kafka import PARTITIONS, MeasuredKafka, Plan, Workbench, new_topics
from tools.benchmarks.payload import EVENTS, events_folder, lines_file
from tools.benchmarks.results import Sample, Series, find, ratio, take_turns
from tools.benchmarks.spark.contestants import (
    ARROW_BYTES,
    FIRST_WARM_UP,
    SINK,
    TUNED_JVM,
    UNLIMITED,
    SparkWrite,
    WarmSpark,
    measure_writes,
)
from tools.benchmarks.spark.micro_batches import ADD_BATCH, SETTINGS, TRIGGER, Stream
from tools.support.certificates import CertificateAuthority
from tools.support.kafka_node import KafkaNode, free_port
from tools.support.transactions import open_transactions

AT_LEAST_ONCE, EXACTLY_ONCE = DeliveryGuarantee
TASKS = 8
"""Number of tasks of a job and of a micro-batch."""
_CORES = 2
_SETTINGS = {**SETTINGS, ARROW_BYTES: UNLIMITED, "spark.sql.files.minPartitionNum": str(TASKS)}
PHASES = ("queryPlanning", ADD_BATCH, "walCommit", "commitOffsets")
"""Phases of a micro-batch. The tasks and the sink's commit are part of addBatch."""
WANTED_RATIO = 0.90
WANTED_ADDED_MS = 150.0
WANTED_ENDING_S = 3.0
TRANSACTIONS = 1_000
"""Number of transactions that are opened first and then ended together."""
_WARM_UP_JOBS = 2
"""Warm-up jobs per guarantee."""
_MICRO_BATCHES = 10
"""Number of measured micro-batches per stream."""
_ROWS = 100
"""Number of rows of a task in a micro-batch."""
_ENDED_S = 60.0
"""Seconds within which all transactions must have ended."""
HOST = "localhost"
PROTOCOLS = ("PLAINTEXT", "SSL")
CODECS = ("none", "lz4")
_TITLE = "Encryption: 131-byte JSON events, PLAINTEXT and SSL, acks=all, idempotent"


def measure_exactly_once(bench: Workbench, plan: Plan) -> tables.Figures:
    """Run all measurements of this part."""
    servers, log = bench.bootstrap_servers, bench.log
    streams = [
        Stream(name, "kafkaprod", name is EXACTLY_ONCE, tasks=TASKS, rows=_ROWS)
        for name in DeliveryGuarantee
    ]
    with WarmSpark(cores=_CORES, conf=_SETTINGS) as spark:
        runs = []
        for guarantee in DeliveryGuarantee:
            series = Series(guarantee)
            for _ in range(_WARM_UP_JOBS):
                log(f"exactly-once: warming up, {guarantee}")
                _job(spark, servers, guarantee, FIRST_WARM_UP)
            runs.append((series, partial(_job, spark, servers, guarantee, plan.records)))
        jobs = take_turns("exactly-once", plan.rounds, runs, log)
        for _ in range(max(1, plan.rounds // 2)):
            for stream in streams:
                log(f"exactly-once, stream: {stream.name}")
                stream.run(spark, servers, _MICRO_BATCHES)
    ending = (Series("EndTxn"), partial(end_all, servers))
    (endings,) = take_turns("exactly-once", plan.rounds, [ending], log)
    return exactly_once_figures(jobs, streams, endings)


def _job(
    spark: WarmSpark, bootstrap_servers: str, guarantee: DeliveryGuarantee, records: int
) -> Sample:
    folder = str(events_folder(records, TASKS))
    markers = TASKS * PARTITIONS if guarantee is EXACTLY_ONCE else 0
    with new_topics(bootstrap_servers, records, markers=markers) as (topic,):
        options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
        if guarantee is EXACTLY_ONCE:
            options |= {"deliveryGuarantee": guarantee.value, "transactionalIdPrefix": topic}
        conf = {ARROW_BYTES: UNLIMITED}
        return spark.write("kafkaprod", options, records, events=folder, tasks=TASKS, conf=conf)


class EndingError(RuntimeError):
    """Not all transactions were committed."""


def end_all(bootstrap_servers: str) -> Sample:
    """Open transactions, and measure the time from the first EndTxn to the last response.

    Raises:
        EndingError: a transaction was rejected, or got no response within a minute.
    """
    config = ProducerConfig.parse({"kafka.bootstrap.servers": bootstrap_servers})
    with (
        new_topics(bootstrap_servers, TRANSACTIONS, markers=TRANSACTIONS) as (topic,),
        BlockingClient(config) as client,
    ):
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        names = [f"{topic}-{number}" for number in range(TRANSACTIONS)]
        opened = open_transactions(client, names, places)
        began = time.perf_counter()
        deadline = client.deadline(_ENDED_S)
        codes = TransactionAdmin(client).end(opened, commit=True, deadline=deadline)
        seconds = time.perf_counter() - began
        check_ended(codes.values())
        return Sample(records=TRANSACTIONS, seconds=seconds, cpu_s=0.0)


def check_ended(codes: Iterable[int]) -> None:
    """Raise EndingError unless all codes are 0."""
    if refused := sorted({code for code in codes if code}):
        raise EndingError(f"EndTxn returned {refused}")


def exactly_once_figures(
    jobs: Sequence[Series], streams: Sequence[Stream], endings: Series
) -> tables.Figures:
    """Return a table for batch jobs and a table for streams, and the limits for the cost."""
    without, with_it = (find(jobs, guarantee) for guarantee in DeliveryGuarantee)
    at_least_once, exactly_once = map(_durations, streams)
    added = [more - less for more, less in zip(exactly_once, at_least_once, strict=True)]
    targets = [
        tables.at_least(
            "exactly once, a batch job of 8 tasks: rate relative to at-least-once",
            WANTED_RATIO,
            "x",
            ratio(with_it, without),
        ),
        tables.at_most(
            "exactly once, added to a micro-batch of 8 tasks", WANTED_ADDED_MS, " ms", added[0]
        ),
        tables.at_most(
            f"exactly once, EndTxn of {TRANSACTIONS:,} transactions",
            WANTED_ENDING_S,
            " s",
            endings.seconds,
        ),
    ]
    samples = {
        "jobs": [job.to_dict() for job in jobs],
        "streams": {stream.name: stream.durations for stream in streams},
        "endings": endings.to_dict(),
    }
    rows = [
        (AT_LEAST_ONCE, *(f"{figure:.0f}" for figure in at_least_once)),
        (EXACTLY_ONCE, *(f"{figure:.0f}" for figure in exactly_once)),
        ("added by exactly-once", *(f"{figure:+.0f}" for figure in added)),
    ]
    table = tables.Table(
        "Exactly once: micro-batches of 8 small tasks, ms, local[2]",
        ("deliveryGuarantee", "median", "p95", *PHASES),
        rows,
        f"{TRANSACTIONS:,} transactions end in {endings.seconds:.2f} s (EndTxn).",
    )
    return tables.Figures([_jobs(jobs), table], targets, samples)


def _durations(stream: Stream) -> list[float]:
    """Return median and p95 of the micro-batches, and the medians of the phases, in ms."""
    whole = [duration[TRIGGER] for duration in stream.durations]
    p95 = quantiles(whole, n=20, method="inclusive")[-1]
    return [stream.median(TRIGGER), p95, *map(stream.median, PHASES)]


def _jobs(jobs: Sequence[Series]) -> tables.Table:
    other = find(jobs, AT_LEAST_ONCE)
    return tables.series_table(
        "Exactly once: a batch job of 8 tasks, 131-byte JSON events from Parquet, local[2]",
        (tables.contestant("deliveryGuarantee"),),
        tables.compared(f"to {AT_LEAST_ONCE}", lambda _: other),
        jobs,
        "CPU is the total of the driver, the JVM and the Python workers.",
    )


class EncryptedKafka(MeasuredKafka):
    """A single-node Kafka with a listener for each of `PROTOCOLS`."""

    def __init__(self) -> None:
        super().__init__()
        self._ports = {"PLAINTEXT": self.nodes[0].port, "SSL": free_port()}
        tls = self.folder / "tls"
        tls.mkdir(parents=True)
        authority = CertificateAuthority()
        self._authority = authority.write(tls)
        self._certificate = authority.server(HOST).write(tls)

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """Return the server properties of both listeners."""
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in self._ports.items())
        return {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{node.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.ssl.ssl.keystore.type": "PEM",
            "listener.name.ssl.ssl.keystore.location": str(self._certificate),
        }

    def options(self, protocol: str, *, librdkafka: bool = False) -> dict[str, str]:
        """Return the client options for `protocol`, with Java's or librdkafka's names."""
        options = {
            "bootstrap.servers": f"{HOST}:{self._ports[protocol]}",
            "security.protocol": protocol,
        }
        if protocol == "PLAINTEXT":
            return options
        if librdkafka:
            return {**options, "ssl.ca.location": str(self._authority)}
        trusted = {"ssl.truststore.location": str(self._authority), "ssl.truststore.type": "PEM"}
        return {**options, **trusted}


def measure_encryption(bench: Workbench, plan: Plan) -> tables.Figures:
    """Run all rounds: first the core, then Spark."""
    bench.stop()  # This part starts its own Kafka with two listeners.
    bench.log("starting Kafka with two listeners")
    with EncryptedKafka() as kafka:
        core_runs = [
            (
                Series(contestant.name, codec, {"protocol": protocol}),
                partial(
                    contestant.send,
                    kafka.bootstrap_servers,
                    lines_file(EVENTS),
                    plan.records,
                    {
                        **kafka.options(protocol, librdkafka=contestant.name == core.LIBRDKAFKA),
                        "compression.type": codec,
                    },
                ),
            )
            for codec in CODECS
            for contestant in core.named(core.OURS, core.LIBRDKAFKA)
            for protocol in PROTOCOLS
        ]
        writes = [
            SparkWrite(
                contestant=replace(
                    contestant,
                    name=f"Spark, {contestant.name}",
                    options={**contestant.options, **kafka.options(protocol)},
                ),
                records=plan.records,
                codec=codec,
                facts={"protocol": protocol},
            )
            for codec in CODECS
            for contestant in (SINK, TUNED_JVM)
            for protocol in PROTOCOLS
        ]
        series = take_turns("encryption", plan.rounds, core_runs, bench.log)
        servers = kafka.bootstrap_servers
        series += measure_writes("encryption", servers, plan.rounds, writes, bench.log)
    return encryption_figures(series)


def encryption_figures(series: Sequence[Series]) -> tables.Figures:
    """Return rates and CPU use by protocol. The rows with SSL have the ratios to PLAINTEXT."""

    def plain(result: Series) -> Series:
        return find(series, result.contestant, result.codec, protocol="PLAINTEXT")

    names = (tables.contestant("producer"), tables.CODEC, tables.fact("protocol", "protocol"))
    about = "TLS 1.3 with certificate verification. CPU is for the client only."
    table = tables.series_table(
        _TITLE, names, tables.compared("vs. PLAINTEXT", plain), series, about
    )
    return tables.Figures([table], [], [result.to_dict() for result in series])
