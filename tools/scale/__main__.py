"""Measure unit costs, check the estimates, and write docs/scale.md: `python -m tools.scale`."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console

from tools.benchmarks.results import describe, one_line
from tools.docs.pages import write_block
from tools.scale.measure import (
    BROKERS,
    many_brokers,
    measure,
    merged,
    preflight_seconds,
    session_in_a_process,
    spark_job,
    values,
)
from tools.scale.page import (
    render_cluster,
    render_costs,
    render_estimates,
    render_limits,
    render_merges,
)

if TYPE_CHECKING:
    from tools.scale.estimate import Costs

_MERGES = (100, 1_000, 10_000)
_PARTITIONS, _BROKERS = 1_000, 100
_ROWS = 100_000
_TASKS, _WORKERS = 6, 2


def main() -> None:
    """Measure, check, and write the blocks; `--print` prints them instead of changing the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="leave docs/scale.md as it is")
    options = parser.parse_args()
    machine = one_line(describe())
    costs = measure()
    blocks = {
        "scale-costs": f"{machine}.\n\n{render_costs(costs)}",
        "scale-estimates": render_estimates(costs),
        "scale-limits": render_limits(costs),
        "scale-merges": render_merges([_merge(tasks, costs) for tasks in _MERGES]),
        "scale-cluster": _cluster(),
    }
    console = Console(width=200)
    for name, text in blocks.items():
        console.print(f"[bold]{name}[/bold]")
        console.print(text, markup=False)
        if not options.print:
            write_block(name, text)


def _merge(tasks: int, costs: Costs) -> tuple[int, int, float, float, float]:
    size, seconds = merged(tasks, _PARTITIONS, _BROKERS)
    told = tasks * costs.message_bytes.at(_PARTITIONS, _BROKERS)
    return tasks, size, seconds, told, tasks * costs.merge_seconds.at(_PARTITIONS, _BROKERS)


def _cluster() -> str:
    """Run a session and a Spark job, and check that every record was written exactly once."""
    with many_brokers() as cluster:
        session = session_in_a_process(cluster.bootstrap_servers, _ROWS)
        preflight = preflight_seconds(cluster.bootstrap_servers)
        job = spark_job(cluster.bootstrap_servers, _ROWS, _TASKS, _WORKERS)
        found = Counter(values(cluster))
    expected = Counter(b"%d" % each for each in range(_ROWS))
    expected.update(b"s%d" % each for each in range(_ROWS))
    if found != expected:
        raise SystemExit(f"{found.total():,} records are there, {2 * _ROWS:,} were written")
    return render_cluster(session, job, BROKERS, preflight)


if __name__ == "__main__":
    main()
