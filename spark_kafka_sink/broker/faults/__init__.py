"""Faults on demand: what goes wrong, for which requests, and how often.

`fault` says what a fault is and what it matches, `spec` reads one from text, `table` counts and
throws the dice, `places` knows where requests name partitions, `injector` does the damage.
"""

from __future__ import annotations

from spark_kafka_sink.broker.faults.fault import Effect, Fault
from spark_kafka_sink.broker.faults.table import ActiveFault, Faults

__all__ = ["ActiveFault", "Effect", "Fault", "Faults"]
