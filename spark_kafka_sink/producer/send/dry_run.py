"""The requests of a dry run, which are not sent, and the comparison of codecs on samples.

A dry run sends no Produce request: batches are added to the report and complete at once. Metadata
and connections are real, so the partitions, leaders and protocol versions are also real.

Batches 1, 2, 4, 8 and so on of a task are compressed with every codec until the samples reach 8
MiB. The early samples cover small tasks, and the late samples cover data that comes late in a task.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER
from spark_kafka_sink.kafka.records.compression import compress, decompress
from spark_kafka_sink.kafka.records.record_batch import HEADER_SIZE
from spark_kafka_sink.report.codec_cost import CodecCost

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
    from spark_kafka_sink.producer.send.session_partitions import DrainedBatch
    from spark_kafka_sink.report.report_builder import ReportBuilder


SAMPLED_BYTES = 8 * 1024 * 1024
"""A task stops sampling batches after this number of uncompressed bytes."""


def is_sampled(number: int, sampled: int) -> bool:
    """Return True if batch `number` (from 1) is to be sampled after `sampled` bytes."""
    return number & (number - 1) == 0 and sampled < SAMPLED_BYTES


class CodecSampler:
    """Compresses samples of one session's batches with every codec; sender thread only.

    Args:
        config: the codec and level of the batches.
        report: receives the compression cost of each sample.
        cpu_ns: returns the CPU time of the calling thread, in nanoseconds.
    """

    def __init__(
        self,
        config: ProducerConfig,
        report: ReportBuilder,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._levels = {config.compression_type: config.compression_level}
        self._report = report
        self._cpu_ns = cpu_ns
        self._seen = 0
        self._sampled = 0
        """Number of uncompressed bytes sampled so far."""

    def offer(self, batch: ProducerBatch) -> None:
        """Compress the batch with every codec if it is to be sampled."""
        self._seen += 1
        if not is_sampled(self._seen, self._sampled):
            return
        records = b"".join(batch.buffers)
        if batch.codec is not Codec.NONE:
            records = decompress(batch.codec, records, batch.raw_size)
        if not self._sampled:
            for codec in Codec:
                self._compress(codec, b"")  # exclude per-thread codec setup from the cost
        self._sampled += len(records)
        self._report.add_codec_costs(
            self._measure_cost(codec, records, batch.records) for codec in Codec
        )

    def _measure_cost(self, codec: Codec, data: bytes, records: int) -> CodecCost:
        begin = self._cpu_ns()
        size = len(self._compress(codec, data))
        spent = self._cpu_ns() - begin
        return CodecCost(
            codec=codec.name.lower(),
            batches=1,
            records=records,
            bytes_uncompressed=HEADER_SIZE + len(data),
            bytes_compressed=HEADER_SIZE + size,
            cpu_ns=0 if codec is Codec.NONE else spent,
        )

    def _compress(self, codec: Codec, data: bytes) -> bytes:
        if codec is Codec.NONE:
            return data
        return compress(codec, data, self._levels.get(codec))


@dataclass(kw_only=True, eq=False)
class DryRun:
    """Completes batches without sending them; a dry run has no producer id."""

    client: ProducerClient
    listeners: BatchListener
    report: ReportBuilder
    completer: BatchCompleter

    def __post_init__(self) -> None:
        if self.client.config.enable_idempotence:
            raise AssertionError("a dry run must not request a producer id")
        self._sampler = CodecSampler(self.client.config, self.report)
        self._listed: dict[str, int] = {}
        """Number of each topic's partitions that are already in the report."""

    def complete(self, node_id: int, batches: list[DrainedBatch], now: float) -> None:
        """Complete the batches of a request that is not sent to its broker."""
        node = self.client.metadata.cluster.nodes[node_id]
        self.listeners.on_request_sent([batch for _, batch in batches], node)
        for state, batch in batches:
            self.listeners.on_sent(batch, node, 0, now)
            self._list_partitions(batch.topic_partition.topic)
            self._sampler.offer(batch)
            self.completer.complete_dry_run(state, batch)
        # Notify the writer as a response would, because more may be drained now.
        self.client.network.wakeup()

    def _list_partitions(self, topic: str) -> None:
        """Add all partitions of a topic to the report, including those that get no records."""
        leaders = self.client.metadata.cluster.topics[topic].leaders
        for partition in range(self._listed.get(topic, 0), len(leaders)):
            if leaders[partition] != NO_LEADER:
                self.report.set_leader(topic, partition, leaders[partition])
        self._listed[topic] = len(leaders)
