"""Measure unit costs, check the estimates, and write docs/scale.md: `python -m tools.scale`."""

from collections import Counter
from collections.abc import Sequence

from spark_kafka_sink import DeliveryReport
from tools.benchmarks.results import describe
from tools.docs.pages import table, write_block
from tools.scale.estimate import LIMITS, WORKLOADS, Costs, Estimate, Workload, estimate, first
from tools.scale.measure import (
    BROKERS,
    TOPIC,
    SessionCost,
    many_brokers,
    measure,
    merged,
    preflight_seconds,
    session_in_a_process,
    spark_job,
)

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
    sizes = (f"{each.tasks:,} x {each.partitions:,} x {each.brokers}" for each in workloads)
    heading = ["tasks x partitions x brokers", *sizes]
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


def render_merges(costs: Costs) -> str:
    """Return a table of measured merges of commit messages, with their estimates."""
    written = _PARTITIONS, _BROKERS
    rows = []
    for tasks in _MERGES:
        size, seconds = merged(tasks, *written)
        estimated = tasks * costs.message_bytes.at(*written)
        estimated_s = tasks * costs.merge_seconds.at(*written)
        sizes = f"{tasks:,}", shown(size), shown(estimated)
        rows.append((*sizes, f"{seconds:.2f}", f"{estimated_s:.2f}"))
    return table(("tasks", "bytes", "estimate", "CPU seconds", "estimate"), rows)


def render_cluster(session: SessionCost, job: DeliveryReport, preflight: float) -> str:
    """Return a table of the connections and records that the brokers have counted."""
    connections = sum(each.connects for each in job.metrics.brokers)
    heading = ("writer", "workers", "connections expected", "counted", "records")
    writers = (
        ("a session", 1, session.connections, session.persisted),
        (f"a Spark job of {job.tasks} tasks", _WORKERS, connections, job.persisted),
    )
    rows = (
        (name, f"{workers}", f"{workers * (BROKERS + 1)}", f"{counted}", f"{persisted:,}")
        for name, workers, counted, persisted in writers
    )
    return (
        f"{table(heading, rows)}\nThe session took {session.memory / 1e6:.0f} MB, "
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
    """Measure, check, and update docs/scale.md."""
    machine, costs = describe(), measure()
    blocks = {
        "scale-costs": f"{machine}.\n\n{render_costs(costs)}",
        "scale-estimates": render_estimates(costs),
        "scale-limits": render_limits(costs),
        "scale-merges": render_merges(costs),
        "scale-cluster": _cluster(),
    }
    for name, text in blocks.items():
        print(f"{name}\n\n{text}")
        write_block(name, text)


def _cluster() -> str:
    """Run a session and a Spark job; check that every record was written exactly once."""
    with many_brokers() as cluster:
        session = session_in_a_process(cluster.bootstrap_servers, _ROWS)
        preflight = preflight_seconds(cluster.bootstrap_servers)
        job = spark_job(cluster.bootstrap_servers, _ROWS, _TASKS, _WORKERS)
        found = Counter(record.value for record in cluster.records(TOPIC))
    expected = Counter(b"%s%d" % (prefix, each) for prefix in (b"", b"s") for each in range(_ROWS))
    if found != expected:
        raise SystemExit(f"found {found.total():,} records, expected {2 * _ROWS:,}")
    return render_cluster(session, job, preflight)


if __name__ == "__main__":
    main()
