"""Measure costs, check the estimates, and write docs/scale.md: `python -m tools.scale`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

from spark_kafka_sink import DeliveryReport
from tools.benchmarks.results import describe
from tools.docs.pages import table, write_block
from tools.scale.estimate import LIMITS, WORKLOADS, Costs, Limit, Workload, estimate, tightest
from tools.scale.measure import TOPIC, Measured, many_brokers, measure, merged, spark_job

_MERGES = (100, 1_000, 10_000)
_CLUSTER = replace(WORKLOADS[2], brokers=50)
"""The cluster on which a Spark job is run."""
_ROWS, _TASKS, _WORKERS = 100_000, 6, 2


def render_estimates(found: Sequence[Measured], *, exactly_once: bool) -> str:
    """Return a table with a column for each workload."""
    sizes = [replace(each.size, exactly_once=exactly_once) for each in found]
    estimates = [estimate(size, each.costs) for size, each in zip(sizes, found, strict=True)]
    limits = [tightest(each) for each in estimates]
    shares = zip(limits, estimates, strict=True)
    rows = [
        ["rows of a task", *(f"{each.rows:,}" for each in sizes)],
        ["tasks at once, seconds each", *(f"{w.slots:,}, {w.task_seconds:g}" for w in sizes)],
        *([name, *(shown(each[name]) for each in estimates)] for name in estimates[0]),
        ["tightest limit", *(f"{limit.figure}: {_share(limit, each)}" for limit, each in shares)],
    ]
    heading = ["tasks x partitions x brokers", *map(_described, sizes)]
    return f"`deliveryGuarantee={sizes[0].guarantee}`:\n\n{table(heading, rows)}"


def render_limits(found: Sequence[Measured]) -> str:
    """Return a table of the limits, the used shares for the largest workloads, and the settings."""
    largest = max(each.size.tasks for each in found)
    writes = [each for each in found if each.size.tasks == largest]

    def used(limit: Limit, *, exactly_once: bool) -> str:
        estimates = (
            estimate(replace(each.size, exactly_once=exactly_once), each.costs) for each in writes
        )
        return _share(limit, max(estimates, key=limit.share))

    rows = (
        (
            limit.figure,
            limit.source,
            *(used(limit, exactly_once=once) for once in (False, True)),
            limit.setting,
        )
        for limit in LIMITS
    )
    return table(("what", "limit", "at-least-once", "exactly-once", "relevant settings"), rows)


def render_costs(found: Sequence[Measured]) -> str:
    """Return a table of the costs of a task, with a column for each workload."""
    rows = (
        (
            field.name.replace("_", " "),
            *(shown(getattr(each.costs, field.name)) for each in found),
        )
        for field in fields(Costs)
    )
    return table(("of a task", *(_described(each.size) for each in found)), rows)


def render_merges(measured: Measured) -> str:
    """Return a table of measured merges of commit messages, with their estimates."""
    rows = []
    for tasks in _MERGES:
        size, seconds = merged(measured.reports, tasks)
        estimated = shown(tasks * measured.costs.message_bytes)
        estimated_s = f"{tasks * measured.costs.merge_seconds:.2f}"
        rows.append((f"{tasks:,}", shown(size), estimated, f"{seconds:.2f}", estimated_s))
    return table(("tasks", "bytes", "estimate", "CPU seconds", "estimate"), rows)


def render_connections(found: Sequence[Measured], job: DeliveryReport) -> str:
    """Return a table of the connections that the brokers should have and have counted."""
    single = [(f"a task, {_described(each.size)}", each.size, 1, each.reports[0]) for each in found]
    spark = (f"a Spark job of {job.tasks} tasks, {_described(_CLUSTER)}", _CLUSTER, _WORKERS, job)
    rows = (
        (
            name,
            f"{workers}",
            f"{workers * size.worker_connections:.0f}",
            f"{sum(each.connects for each in report.metrics.brokers)}",
            f"{report.persisted:,}",
        )
        for name, size, workers, report in (*single, spark)
    )
    return table(("writer", "workers", "connections expected", "counted", "records"), rows)


def shown(value: float) -> str:
    """Format a number with two or three digits and a unit prefix."""
    for unit, size in (
        (" G", 1e9),
        (" M", 1e6),
        (" k", 1e3),
        ("", 1.0),
        (" m", 1e-3),
        (" µ", 1e-6),
    ):
        if value >= size:
            return f"{value / size:.{0 if value >= 9.95 * size else 1}f}{unit}"
    return f"{value:g}"


def _described(size: Workload) -> str:
    return f"{size.tasks:,} x {size.partitions:,} x {size.brokers}"


def _share(limit: Limit, estimated: dict[str, float]) -> str:
    share = limit.share(estimated)
    return f"{share:.0%}" if share >= 0.01 else "below 1%"


def main() -> None:
    """Measure, check, and update docs/scale.md."""
    machine, found = describe(), [measure(size) for size in WORKLOADS]
    blocks = {
        "scale-costs": f"{machine}.\n\n{render_costs(found)}",
        "scale-estimates": "\n".join(
            render_estimates(found, exactly_once=once) for once in (False, True)
        ),
        "scale-limits": render_limits(found),
        "scale-merges": render_merges(found[2]),
        "scale-cluster": render_connections(found, _spark_job()),
    }
    for name, text in blocks.items():
        print(f"{name}\n\n{text}")
        write_block(name, text)


def _spark_job() -> DeliveryReport:
    """Run a Spark job; check that every record was written exactly once."""
    with many_brokers(_CLUSTER) as cluster:
        job = spark_job(cluster.bootstrap_servers, _ROWS, _TASKS, _WORKERS)
        found = Counter(record.value for record in cluster.records(TOPIC))
    if found != Counter(b"%d" % number for number in range(_ROWS)):
        raise SystemExit(f"found {found.total():,} records, expected {_ROWS:,}")
    return job


if __name__ == "__main__":
    main()
