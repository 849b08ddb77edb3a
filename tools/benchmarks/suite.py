"""All parts of the benchmarks, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tools.benchmarks import encryption
from tools.benchmarks.core import codec, encoder, kinds, latency, value_sizes
from tools.benchmarks.core import measuring as core
from tools.benchmarks.exactly_once import measuring as exactly_once
from tools.benchmarks.part import Part
from tools.benchmarks.spark import arrow_batches, first_write, partitions, topics
from tools.benchmarks.spark import measuring as spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.benchmarks.amounts import Amounts
    from tools.benchmarks.part import Figures, Workbench

    Tell = Callable[[str], None]

_P = TypeVar("_P")


def suite(amounts: Amounts) -> tuple[Part, ...]:
    """The parts with so much to measure each."""

    def encrypted(bench: Workbench) -> Figures:
        bench.stop()  # It has a Kafka of its own, with two listeners.
        return encryption.measure(amounts.encryption, bench.tell)

    return (
        Part("encoder", lambda bench: encoder.measure(amounts.encoder_rounds, bench.tell)),
        _on_kafka("core", core.measure, amounts.core),
        _on_kafka("headers", kinds.measure, amounts.kinds),
        _on_kafka("sizes", value_sizes.measure, amounts.sizes),
        _on_kafka("codec", codec.measure, amounts.codec),
        _on_kafka("latency", latency.measure, amounts.latency),
        _on_kafka("spark", spark.measure, amounts.spark),
        _on_kafka("first-write", first_write.measure, amounts.first_write),
        _on_kafka("partitions", partitions.measure, amounts.partitions),
        _on_kafka("arrow-batches", arrow_batches.measure, amounts.arrow_batches),
        _on_kafka("topics", topics.measure, amounts.topics),
        _on_kafka("exactly-once", exactly_once.measure, amounts.exactly_once),
        Part("encryption", encrypted),
    )


def _on_kafka(name: str, measure: Callable[[str, _P, Tell], Figures], plan: _P) -> Part:
    return Part(name, lambda bench: measure(bench.bootstrap_servers, plan, bench.tell))
