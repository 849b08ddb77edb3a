"""The cost of encryption: the same records, codec and broker, with PLAINTEXT and SSL in turn.

The producer core is compared with librdkafka, and whole Spark writes are compared with Spark's own
sink. Both listeners are on the same broker, which decrypts on the same machine. CPU figures are for
the client only.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tools.benchmarks import tables
from tools.benchmarks.core import contestants as core
from tools.benchmarks.kafka import MeasuredKafka, Plan, Workbench
from tools.benchmarks.payload import EVENTS, lines_file
from tools.benchmarks.results import Series, find, take_turns
from tools.benchmarks.spark.contestants import SINK, TUNED_JVM, SparkWrite, measure_writes
from tools.support.certificates import CertificateAuthority
from tools.support.kafka_node import KafkaNode, free_port

HOST = "localhost"
PROTOCOLS = ("PLAINTEXT", "SSL")
CODECS = ("none", "lz4")
_TITLE = "Encryption: 131-byte JSON events, PLAINTEXT and SSL, acks=all, idempotent"


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
