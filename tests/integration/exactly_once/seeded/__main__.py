"""Run more seeds: `python -m tests.integration.exactly_once.seeded RUNS [FIRST_SEED]`."""

import logging
import sys
import time

from spark_kafka_sink import EmbeddedBroker
from tests.integration.exactly_once.seeded.run import run

_PER_BROKER = 100
"""Runs for each broker, which keeps the topics in memory."""


def main() -> int:
    """Exit with status 1 if a row was lost or duplicated."""
    logging.disable(logging.WARNING)
    runs = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    started = time.perf_counter()
    wrong = attempts = 0
    for start in range(first, first + runs, _PER_BROKER):
        with EmbeddedBroker(nodes=2) as broker:
            for seed in range(start, min(start + _PER_BROKER, first + runs)):
                result = run(broker, seed)
                attempts += result.attempts
                if result.problem is not None:
                    wrong += 1
                    sys.stdout.write(f"seed {seed}: {result.problem}\n")
    seconds = time.perf_counter() - started
    sys.stdout.write(
        f"{runs:,} runs from seed {first}, {attempts:,} attempts of batches, {wrong} wrong, "
        f"{seconds:,.0f} s\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
