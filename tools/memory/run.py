"""Measures the cases, each in a Spark of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.memory.brokers import broker_for
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from tools.memory.case import Case

_LONGEST_S = 1_800


class WriteFailedError(RuntimeError):
    """A measured write failed; the message ends with what Spark printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one write took, in bytes and seconds.

    `idle` is the worker's peak after a write of one row, `peak` after the measured one; `charged`
    the most that buffer.memory held, `persisted` how many rows were acknowledged.
    """

    idle: int
    peak: int
    charged: int
    persisted: int
    seconds: float


def measure(case: Case) -> Reading:
    """Write a case's rows and read the worker's peak.

    Raises:
        WriteFailedError: Spark failed, or not every row was acknowledged.
    """
    with broker_for(case) as (servers, topic):
        options = {
            "kafka.bootstrap.servers": servers,
            "topic": topic,
            "kafka.buffer.memory": str(case.buffer),
            **case.options,
        }
        order = {
            "columns": case.columns,
            "count": case.count,
            "options": options,
            "conf": case.settings,
        }
        done = subprocess.run(
            [sys.executable, "-m", "tools.memory.spark_write", json.dumps(order)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LONGEST_S,
        )
    if done.returncode:
        raise WriteFailedError(f"{case}:\n{done.stderr[-3000:]}")
    reading = Reading(**json.loads(done.stdout.splitlines()[-1]))
    if reading.persisted != case.count:
        raise WriteFailedError(f"{case}: {reading.persisted:,} of {case.count:,} rows")
    return reading
