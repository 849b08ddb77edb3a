"""How much each part measures: the whole, and a quick look."""

from __future__ import annotations

from dataclasses import dataclass

from tools.benchmarks.core.codec import CodecPlan
from tools.benchmarks.core.latency import LatencyPlan
from tools.benchmarks.core.measuring import CorePlan
from tools.benchmarks.core.value_sizes import SizesPlan
from tools.benchmarks.encryption import EncryptionPlan
from tools.benchmarks.exactly_once.figures import ExactlyOncePlan
from tools.benchmarks.spark.arrow_batches import ArrowBatchesPlan
from tools.benchmarks.spark.first_write import FirstWritePlan
from tools.benchmarks.spark.measuring import SparkPlan
from tools.benchmarks.spark.partitions import PartitionsPlan
from tools.benchmarks.spark.topics import TopicsPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Records and rounds of each part."""

    encoder_rounds: int
    core: CorePlan
    kinds: CorePlan
    sizes: SizesPlan
    codec: CodecPlan
    latency: LatencyPlan
    spark: SparkPlan
    first_write: FirstWritePlan
    partitions: PartitionsPlan
    arrow_batches: ArrowBatchesPlan
    topics: TopicsPlan
    encryption: EncryptionPlan
    exactly_once: ExactlyOncePlan


FULL = Amounts(
    encoder_rounds=60,
    core=CorePlan(records=4_000_000, warmup=500_000, rounds=3),
    kinds=CorePlan(records=2_000_000, warmup=300_000, rounds=3),
    sizes=SizesPlan(records=3_000_000, value_bytes=400_000_000, rounds=3),
    codec=CodecPlan(cost_rounds=10, places=CorePlan(records=1_000_000, warmup=200_000, rounds=2)),
    latency=LatencyPlan(seconds=6, rounds=2),
    spark=SparkPlan(records=4_000_000, rounds=4),
    first_write=FirstWritePlan(records=1_000_000, sessions=3),
    partitions=PartitionsPlan(records=1_000_000, jvm_records=200_000, rounds=3),
    arrow_batches=ArrowBatchesPlan(records=400_000, rounds=3),
    topics=TopicsPlan(records=1_000_000, rounds=3),
    encryption=EncryptionPlan(
        core=CorePlan(records=4_000_000, warmup=500_000, rounds=2),
        spark=SparkPlan(records=4_000_000, rounds=2),
    ),
    exactly_once=ExactlyOncePlan(
        records=4_000_000,
        rounds=4,
        stream_rounds=2,
        micro_batches=10,
        transactions=1_000,
        endings=3,
    ),
)
QUICK = Amounts(
    encoder_rounds=15,
    core=CorePlan(records=1_000_000, warmup=300_000, rounds=1),
    kinds=CorePlan(records=300_000, warmup=100_000, rounds=1),
    sizes=SizesPlan(records=300_000, value_bytes=50_000_000, rounds=1),
    codec=CodecPlan(cost_rounds=2, places=CorePlan(records=300_000, warmup=100_000, rounds=1)),
    latency=LatencyPlan(seconds=3, rounds=1),
    spark=SparkPlan(records=500_000, rounds=1),
    first_write=FirstWritePlan(records=100_000, sessions=1),
    partitions=PartitionsPlan(records=100_000, jvm_records=20_000, rounds=1),
    arrow_batches=ArrowBatchesPlan(records=100_000, rounds=1),
    topics=TopicsPlan(records=100_000, rounds=1),
    encryption=EncryptionPlan(
        core=CorePlan(records=500_000, warmup=100_000, rounds=1),
        spark=SparkPlan(records=200_000, rounds=1),
    ),
    exactly_once=ExactlyOncePlan(
        records=400_000,
        rounds=2,
        stream_rounds=1,
        micro_batches=10,
        transactions=200,
        endings=1,
    ),
)
