"""The cost of encryption: the same records, codec and broker, with PLAINTEXT and SSL in turn.

The producer core is compared with librdkafka, and whole Spark writes are compared with Spark's own
sink. Both listeners are on the same broker, which decrypts on the same machine. CPU figures are for
the client only.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core import contestants as core
from tools.benchmarks.core.contestants import BATCHES, EVENTS, SAFE
from tools.benchmarks.core.job import Job
from tools.benchmarks.payload import events_file, lines_file
from tools.benchmarks.results import Series, Table, attempt, failure_notes, spread
from tools.benchmarks.spark import contestants as spark
from tools.benchmarks.spark.contestants import WarmSpark
from tools.benchmarks.topics import MEASURED, fresh_topic
from tools.support.certificates import CertificateAuthority
from tools.support.kafka_cluster import KafkaCluster
from tools.support.kafka_node import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tools.benchmarks.core.contestants import Contestant
    from tools.benchmarks.core.rates import CorePlan
    from tools.benchmarks.results import Sample, Target
    from tools.benchmarks.spark.contestants import SparkContestant
    from tools.benchmarks.spark.rates import SparkPlan
    from tools.support.kafka_node import KafkaNode

HOST = "localhost"
PROTOCOLS = ("PLAINTEXT", "SSL")
CODECS = ("none", "lz4")
_WARM_UP = 20_000
_SPARK = "Spark, "


@dataclass(frozen=True, slots=True, kw_only=True)
class EncryptionPlan:
    """Numbers of records that the core and Spark send."""

    core: CorePlan
    spark: SparkPlan


@dataclass(frozen=True, slots=True)
class Cost:
    """The runs of a contestant with one codec, by protocol."""

    contestant: str
    codec: str
    series: dict[str, Series] = field(default_factory=dict)

    @classmethod
    def of(cls, contestant: str, codec: str) -> Cost:
        """Return a cost without samples."""
        return cls(contestant, codec, {each: Series(contestant, codec) for each in PROTOCOLS})

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as a JSON object."""
        return {
            "contestant": self.contestant,
            "codec": self.codec,
            **{each: one.to_dict() for each, one in self.series.items()},
        }


@dataclass(frozen=True, slots=True)
class EncryptionFigures:
    """Measurements of all contestants."""

    costs: Sequence[Cost]

    def tables(self) -> list[Table]:
        """Return the encryption table."""
        return [encryption_table(self.costs)]

    def targets(self) -> list[Target]:
        """Return no targets."""
        return []

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [cost.to_dict() for cost in self.costs]


class EncryptedKafka(KafkaCluster):
    """A single-node Kafka with a listener for each of `PROTOCOLS`."""

    def __init__(self) -> None:
        super().__init__(**MEASURED)
        self._ports = {"PLAINTEXT": self.nodes[0].port, "SSL": free_port()}
        tls = self.folder / "tls"
        tls.mkdir(parents=True)
        authority = CertificateAuthority()
        self._authority = authority.write(tls)
        self._certificate = authority.server(HOST).write(tls)

    def servers(self, protocol: str) -> str:
        """Return host:port of the listener for `protocol`."""
        return f"{HOST}:{self._ports[protocol]}"

    def node_settings(self, node: KafkaNode) -> dict[str, str]:
        """Return the server properties of both listeners."""
        listeners = ",".join(f"{each}://{self.servers(each)}" for each in PROTOCOLS)
        return {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{node.controller_port}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.ssl.ssl.keystore.type": "PEM",
            "listener.name.ssl.ssl.keystore.location": str(self._certificate),
        }

    def java_options(self, protocol: str) -> dict[str, str]:
        """Return the client options, with Java names, for `protocol`."""
        return self._options(protocol, "ssl.truststore.location") | (
            {"ssl.truststore.type": "PEM"} if protocol == "SSL" else {}
        )

    def librdkafka_options(self, protocol: str) -> dict[str, str]:
        """Return librdkafka's client options for `protocol`."""
        return self._options(protocol, "ssl.ca.location")

    def _options(self, protocol: str, authorities: str) -> dict[str, str]:
        trusted = {authorities: str(self._authority)} if protocol == "SSL" else {}
        return {"security.protocol": protocol, **trusted}


def measure(plan: EncryptionPlan, log: Callable[[str], None]) -> EncryptionFigures:
    """Run all rounds: first the core, then Spark."""
    log("starting Kafka with two listeners")
    with EncryptedKafka() as kafka:
        costs = [*_core(kafka, plan.core, log), *_spark(kafka, plan.spark, log)]
    return EncryptionFigures(costs)


def _core(kafka: EncryptedKafka, plan: CorePlan, log: Callable[[str], None]) -> list[Cost]:
    names = (core.OURS, core.LIBRDKAFKA)
    contestants = [one for one in core.present(log) if one.name in names]
    configurations = [(one, Cost.of(one.name, codec)) for codec in CODECS for one in contestants]
    for number in range(plan.rounds):
        for contestant, cost in configurations:
            for protocol, series in cost.series.items():
                what = f"{contestant.name}, {cost.codec}, {protocol}"
                log(f"encryption, round {number + 1} of {plan.rounds}: {what}")
                series.add(partial(_send, kafka, contestant, protocol, cost.codec, plan), log)
    return [cost for _, cost in configurations]


def _send(
    kafka: EncryptedKafka, contestant: Contestant, protocol: str, codec: str, plan: CorePlan
) -> Sample:
    librdkafka = contestant.name == core.LIBRDKAFKA
    way = kafka.librdkafka_options(protocol) if librdkafka else kafka.java_options(protocol)
    with fresh_topic(kafka.bootstrap_servers, plan.warmup + plan.records) as topic:
        return contestant.run(
            Job(
                bootstrap_servers=kafka.servers(protocol),
                topic=topic,
                payload=lines_file(EVENTS),
                warmup=plan.warmup,
                records=plan.records,
                options={**contestant.options, **way, "compression.type": codec},
            )
        )


def _spark(kafka: EncryptedKafka, plan: SparkPlan, log: Callable[[str], None]) -> list[Cost]:
    names = (spark.OURS, spark.JVM)
    contestants = [one for one in spark.CONTESTANTS if one.name in names]
    configurations = [
        (one, Cost.of(_SPARK + one.name, codec)) for codec in CODECS for one in contestants
    ]
    with ExitStack() as stack:
        sparks = {one.writer: stack.enter_context(WarmSpark()) for one in contestants}
        for contestant, cost in configurations:
            for protocol, series in cost.series.items():
                log(f"encryption: warming up {cost.contestant}, {cost.codec}, {protocol}")
                order = _order(kafka, contestant, protocol, cost.codec)
                write = partial(_write, kafka, sparks[contestant.writer], order)
                attempt(partial(write, plan.records), series.failures, log)
        for number in range(plan.rounds):
            for contestant, cost in configurations:
                for protocol, series in cost.series.items():
                    what = f"{cost.contestant}, {cost.codec}, {protocol}"
                    log(f"encryption, round {number + 1} of {plan.rounds}: {what}")
                    order = _order(kafka, contestant, protocol, cost.codec)
                    write = partial(_write, kafka, sparks[contestant.writer], order)
                    if attempt(partial(write, _WARM_UP), series.failures, log) is not None:
                        series.add(partial(write, plan.records), log)
    return [cost for _, cost in configurations]


def _order(
    kafka: EncryptedKafka, contestant: SparkContestant, protocol: str, codec: str
) -> dict[str, Any]:
    settings = {"bootstrap.servers": kafka.servers(protocol), "compression.type": codec}
    return {
        "writer": contestant.writer,
        "options": {**settings, **SAFE, **BATCHES, **kafka.java_options(protocol)},
        "columns": {},
        "conf": dict(contestant.conf),
    }


def _write(kafka: EncryptedKafka, warm: WarmSpark, order: dict[str, Any], records: int) -> Sample:
    with fresh_topic(kafka.bootstrap_servers, records) as topic:
        events = str(events_file(records))
        return warm.order({**order, "topic": topic, "events": events, "records": records})


def encryption_table(costs: Sequence[Cost]) -> Table:
    """Return rates and CPU use by protocol. Each pair is followed by the difference."""
    rows = [row for cost in costs for row in _rows(cost)]
    failures = [
        (f"{cost.contestant}, {cost.codec}, {each},", one.failures)
        for cost in costs
        for each, one in cost.series.items()
    ]
    about = "TLS 1.3 with certificate verification. CPU is for the client only."
    return Table(
        "Encryption: 131-byte JSON events, PLAINTEXT and SSL, acks=all, idempotent",
        ("producer", "codec", "protocol", "M rec/s", "min - max", "CPU us/rec"),
        rows,
        " ".join([about, *failure_notes(failures)]),
    )


def _rows(cost: Cost) -> Iterator[tuple[str, ...]]:
    for protocol, one in cost.series.items():
        figures = ("failed", "-", "-")
        if one.samples:
            figures = (f"{one.rate / 1e6:.2f}", spread(one), f"{one.cpu_us:.3f}")
        yield (cost.contestant, cost.codec, protocol, *figures)
    plain, encrypted = (cost.series[each] for each in PROTOCOLS)
    if plain.samples and encrypted.samples:
        rate, cpu_us = encrypted.rate / plain.rate, encrypted.cpu_us - plain.cpu_us
        figures = (f"{rate:.2f}x", "", f"{cpu_us:+.3f} ({encrypted.cpu_us / plain.cpu_us:.2f}x)")
        yield ("cost of encryption", cost.codec, "", *figures)
