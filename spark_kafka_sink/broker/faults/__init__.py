"""Faults on demand: what goes wrong, for which requests, and how often.

`fault` says what a fault is and which requests it matches, `parser` reads one from text, `faults`
holds those that are armed and counts, `request_partitions` finds the partitions that a request
names, `injector` applies faults to requests and responses.
"""

from __future__ import annotations

from spark_kafka_sink.broker.faults.fault import Effect, Fault
from spark_kafka_sink.broker.faults.faults import ActiveFault, Faults

__all__ = ["ActiveFault", "Effect", "Fault", "Faults"]
