"""Measure unit costs, check the estimates, and write docs/scale.md: `python -m tools.scale`."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console

from tools.benchmarks.results import describe, one_line
from tools.docs.pages import table, write_block
from tools.scale.estimate import LIMITS, WORKLOADS, Estimate, Workload, estimate, first
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tools.scale.estimate import Costs
    from tools.scale.measure import JobCost, SessionCost


_FIGURES = (
    ("records per batch", "batch_records"),
    ("bytes per Produce request", "request_bytes"),
    ("Produce requests per second, per broker", "requests_per_broker"),
    ("connections per broker", "connections_per_broker"),
    ("producer states per broker", "producer_states_per_broker"),
    ("bytes of producer state per broker", "producer_state_bytes"),
    ("metadata bytes per second, all brokers", "metadata_bytes"),
    ("bytes of commit messages", "driver_bytes"),
    ("memory of the commit", "commit_memory"),
    ("CPU seconds of the commit", "commit_seconds"),
    ("bytes of the decision", "decision_bytes"),
    ("transaction markers per broker", "markers_per_broker"),
    ("appends per second to transaction logs", "coordinator_appends"),
)


def render_estimates(costs: Costs, workloads: Sequence[Workload] = WORKLOADS) -> str:
    """Return a table for each delivery guarantee, with a column for each workload."""
    parts = []
    for guarantee in dict.fromkeys(each.guarantee for each in workloads):
        some = [each for each in workloads if each.guarantee == guarantee]
        parts.append(f"`deliveryGuarantee={guarantee}`:\n\n{_estimates(some, costs)}")
    return "\n".join(parts)


def _estimates(workloads: Sequence[Workload], costs: Costs) -> str:
    found = [estimate(each, costs) for each in workloads]
    heading = ["tasks x partitions x brokers", *(_size(each) for each in workloads)]
    rows = [
        ["rows of a task", *(f"{each.rows:,}" for each in workloads)],
        ["tasks at once, seconds each", *(f"{w.slots:,}, {w.task_seconds:g}" for w in workloads)],
        *(
            [name, *(shown(getattr(each, field)) for each in found)]
            for name, field in _FIGURES
            if any(getattr(each, field) for each in found)
        ),
        ["tightest limit", *(_first(each) for each in found)],
    ]
    return table(heading, rows)


def render_limits(costs: Costs, workloads: Sequence[Workload] = WORKLOADS) -> str:
    """Return a table of the limits, the used shares for the largest workloads, and the settings."""
    largest = max(each.tasks for each in workloads)
    estimates = {
        guarantee: [
            estimate(each, costs)
            for each in workloads
            if each.tasks == largest and each.exactly_once is exactly_once
        ]
        for guarantee, exactly_once in (("at-least-once", False), ("exactly-once", True))
    }
    rows = (
        (
            limit.what,
            limit.source,
            *(_share(max(map(limit.share, found))) for found in estimates.values()),
            limit.setting,
        )
        for limit in LIMITS
    )
    return table(("what", "limit", *estimates, "relevant settings"), rows)


def render_costs(costs: Costs) -> str:
    """Return a table of the unit costs."""
    message, merge = costs.message_bytes, costs.merge_seconds
    rows = (
        ("commit message", f"{message.fixed:,.0f} B", _each(message.partition, message.broker)),
        ("added by exactly-once", f"{costs.transaction_bytes:,.0f} B", ""),
        (
            "merging a message",
            f"{merge.fixed * 1e6:,.0f} us",
            f"{merge.partition * 1e6:.1f} us a partition, {merge.broker * 1e6:.0f} us a broker",
        ),
        (
            "Metadata response",
            f"{costs.metadata_bytes.fixed:,.0f} B",
            _each(costs.metadata_bytes.partition, costs.metadata_bytes.broker),
        ),
        (
            "decoding it",
            f"{costs.metadata_seconds.fixed * 1e6:,.0f} us",
            f"{costs.metadata_seconds.partition * 1e6:.1f} us a partition",
        ),
        (
            "describing a transaction",
            f"{costs.describe_seconds.fixed * 1e6:,.0f} us",
            f"{costs.describe_bytes.partition:.0f} B a partition",
        ),
        (
            "a transaction in the decision",
            f"{costs.decision_bytes.fixed:,.0f} B",
            f"{costs.decision_bytes.partition:.0f} B a listed partition",
        ),
        ("EndTxn", f"{costs.end_seconds * 1e6:.0f} us", ""),
    )
    return table(("", "each", "and"), rows)


def render_merges(found: Iterable[tuple[int, int, float, float, float]]) -> str:
    """Return a table of measured merges of commit messages, with their estimates.

    Args:
        found: (tasks, bytes, seconds, estimated bytes, estimated seconds) for each merge.
    """
    rows = (
        (
            f"{tasks:,}",
            shown(size),
            shown(estimated_size),
            f"{seconds:.2f}",
            f"{estimated_seconds:.2f}",
        )
        for tasks, size, seconds, estimated_size, estimated_seconds in found
    )
    return table(("tasks", "bytes", "estimate", "CPU seconds", "estimate"), rows)


def render_cluster(session: SessionCost, job: JobCost, brokers: int, preflight: float) -> str:
    """Return a table of the connections and records that the brokers have counted."""
    rows = (
        ("a session", "1", f"{brokers + 1}", str(session.connections), f"{session.persisted:,}"),
        (
            f"a Spark job of {job.tasks} tasks",
            str(job.workers),
            str(job.workers * (brokers + 1)),
            str(job.connections),
            f"{job.persisted:,}",
        ),
    )
    lines = table(("writer", "workers", "connections expected", "counted", "records"), rows)
    return (
        f"{lines}\nThe session took {session.memory / 1e6:.0f} MB, "
        f"{session.cpu_seconds:.2f} s of CPU and {session.requests} requests for "
        f"{session.persisted:,} rows in {session.partitions:,} partitions. "
        f"The driver's preflight took {preflight:.2f} s.\n"
    )


def shown(value: float) -> str:
    """Format a number with two or three digits and a unit prefix."""
    for unit, size in ((" G", 1e9), (" M", 1e6), (" k", 1e3), ("", 1.0)):
        if value >= size:
            return f"{value / size:.{0 if value >= 9.95 * size else 1}f}{unit}"
    return f"{value:.2g}"


def _size(workload: Workload) -> str:
    return f"{workload.tasks:,} x {workload.partitions:,} x {workload.brokers}"


def _first(found: Estimate) -> str:
    limit = first(found)
    return f"{limit.what}: {_share(limit.share(found))}"


def _share(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else "below 1%"


def _each(partition: float, broker: float) -> str:
    return f"{partition:.1f} B a partition, {broker:.0f} B a broker"


_MERGES = (100, 1_000, 10_000)
_PARTITIONS, _BROKERS = 1_000, 100
_ROWS = 100_000
_TASKS, _WORKERS = 6, 2


def main() -> None:
    """Measure, check, and update the page; `--print` prints the blocks instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--print", action="store_true", help="print the blocks and leave docs/scale.md unchanged"
    )
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
    estimated = tasks * costs.message_bytes.at(_PARTITIONS, _BROKERS)
    return tasks, size, seconds, estimated, tasks * costs.merge_seconds.at(_PARTITIONS, _BROKERS)


def _cluster() -> str:
    """Run a session and a Spark job; check that every record was written exactly once."""
    with many_brokers() as cluster:
        session = session_in_a_process(cluster.bootstrap_servers, _ROWS)
        preflight = preflight_seconds(cluster.bootstrap_servers)
        job = spark_job(cluster.bootstrap_servers, _ROWS, _TASKS, _WORKERS)
        found = Counter(values(cluster))
    expected = Counter(b"%d" % each for each in range(_ROWS))
    expected.update(b"s%d" % each for each in range(_ROWS))
    if found != expected:
        raise SystemExit(f"found {found.total():,} records, expected {2 * _ROWS:,}")
    return render_cluster(session, job, BROKERS, preflight)


if __name__ == "__main__":
    main()
