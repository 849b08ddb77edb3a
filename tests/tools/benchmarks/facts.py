"""What the tests say of the machine."""

from __future__ import annotations

MACHINE = dict.fromkeys(
    [
        "cores",
        "cpu",
        "memory",
        "kafka",
        "java",
        "python",
        "pyspark",
        "pyarrow",
        "numpy",
        "confluent-kafka",
        "load",
    ],
    "1",
)
