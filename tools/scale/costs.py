"""What one of each thing costs; bytes, and seconds of one core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A cost that grows with a task's partitions and brokers."""

    fixed: float
    partition: float
    """For each partition that the task has written to."""
    broker: float
    """For each broker that it was connected to."""

    def at(self, partitions: float, brokers: float) -> float:
        """The cost of one task."""
        return self.fixed + self.partition * partitions + self.broker * brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured by `tools.scale.measure`, but for those of a Kafka broker at the end."""

    message_bytes: Linear
    """A task's commit message, as Spark's driver holds it."""
    transaction_bytes: float
    """More of it with exactly-once."""
    merge_seconds: Linear
    """Unpacking a message and adding it up."""
    result_seconds: float
    """With exactly-once: the partitions that the decision names of one task."""
    describe_seconds: Linear
    """Decoding what a coordinator says of one transaction."""
    describe_bytes: Linear
    decision_bytes: Linear
    """One transaction in the decision; of a partition that it names."""
    decision_seconds: Linear
    end_seconds: float = 0.000_17
    """EndTxn of one of many transactions: `make bench`, docs/benchmarks.md."""
    metadata_bytes: Linear
    """A Metadata response."""
    metadata_seconds: Linear
    producer_state_bytes: int = 300
    """Assumed: a ProducerStateEntry with a batch or two, its map entry and key, in a broker's heap.
    """
    marker_seconds: float = 0.000_05
    """Assumed: a leader's work on the marker that ends a transaction in one partition."""
