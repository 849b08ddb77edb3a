"""Throughput and latency of the producer core compared with librdkafka in C and Java.

There are four parts: codecs and payloads, keys and headers, value sizes, and latency at a fixed
rate. Each run is a separate process. It sends the same records with acks=all and idempotence to a
real Kafka and, after a warm-up, measures the time from its first record to its last
acknowledgement.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from tools.benchmarks import tables
from tools.benchmarks.core.contestants import (
    JAVA,
    JAVA_DEFAULTS,
    LIBRDKAFKA,
    OURS,
    SINK,
    Kind,
    named,
)
from tools.benchmarks.core.contestants import RATE as RATE_OPTION
from tools.benchmarks.kafka import Plan, Workbench
from tools.benchmarks.payload import EVENTS, RANDOM, lines_file, values_file
from tools.benchmarks.results import Series, find, ratio, take_turns

_PRODUCER = tables.contestant("producer")
PAYLOADS = {RANDOM: "100-byte random records", EVENTS: "131-byte JSON events"}
_CONFIGURATIONS = ((RANDOM, "none"), (EVENTS, "none"), (EVENTS, "lz4"), (EVENTS, "zstd"))
CPU_SHARE = {RANDOM: 0.25, EVENTS: 0.2}
"""Maximum ratio of the core's CPU per record to librdkafka's."""
MOST = 2.0
"""Maximum ratio of the CPU for keyed records with headers to the CPU for plain records."""
SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Value sizes in bytes."""
_LARGEST = {LIBRDKAFKA: {"message.max.bytes": "1048576"}}
"""Maximum record size; librdkafka's default is 1,000,000 bytes, including the key and the record
framing.
"""
_MEAN_BYTES = 130
"""Runs with larger values have fewer records, so that they have this size on average."""
_MB = 1_000_000
_SECONDS = 6
"""Seconds per run; the warm-up takes two seconds."""
_WARMUP_S = 2
_LATENCIES = tuple((rate, linger) for rate in (20_000, 100_000) for linger in (0, 5))
"""Records per second, and linger.ms."""
_BEHIND_MS = 0.3
"""Maximum difference of the median to librdkafka's median, at linger.ms 0."""


def measure_core(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure all producers with all payloads and codecs."""
    runs = []
    for payload, codec in _CONFIGURATIONS:
        java = (JAVA, JAVA_DEFAULTS) if payload == RANDOM else (JAVA,)
        for contestant in named(OURS, LIBRDKAFKA, *java):
            run = partial(
                contestant.send,
                bench.bootstrap_servers,
                lines_file(payload),
                plan.records,
                {"compression.type": codec},
            )
            runs.append((Series(contestant.name, codec, {"payload": payload}), run))
    return core_figures(take_turns("core", plan.rounds, runs, bench.log))


def core_figures(series: Sequence[Series]) -> tables.Figures:
    """Return a table and a target for each payload."""
    by_payload = {
        name: [result for result in series if result.facts["payload"] == name] for name in PAYLOADS
    }
    return tables.Figures(
        [_core_table(payload, of_payload) for payload, of_payload in by_payload.items()],
        [_core_target(payload, of_payload) for payload, of_payload in by_payload.items()],
        {
            payload: [result.to_dict() for result in of_payload]
            for payload, of_payload in by_payload.items()
        },
    )


def _core_table(payload: str, series: Sequence[Series]) -> tables.Table:
    """Return rates, CPU and memory. Ratios are relative to librdkafka with the same codec."""
    figures = (
        *tables.compared("vs. librdkafka", lambda result: find(series, LIBRDKAFKA, result.codec)),
        ("peak MiB", lambda result: f"{result.most('peak_mib'):.0f}"),
        ("start-up CPU s", lambda result: f"{result.median('startup_cpu_s'):.1f}"),
    )
    title = f"Core: {PAYLOADS[payload]}, acks=all, idempotent"
    about = (
        "Medians over the rounds; start-up CPU (process start, imports, compilation, warm-up) is "
        "not in CPU us/rec."
    )
    return tables.series_table(title, (_PRODUCER, tables.CODEC), figures, series, about)


def _core_target(payload: str, series: Sequence[Series]) -> tables.Target:
    """Return the target for client CPU per record relative to librdkafka, without compression."""
    what = f"core, {PAYLOADS[payload]}: client CPU relative to librdkafka's"
    pair = find(series, OURS), find(series, LIBRDKAFKA)
    return tables.cpu_target(what, CPU_SHARE[payload], pair)


def measure_headers(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure all kinds of records."""
    send = partial(SINK.send, bench.bootstrap_servers, lines_file(EVENTS), plan.records)
    runs = [(Series(kind), partial(send, kind=kind)) for kind in Kind]
    series = take_turns("keys and headers", plan.rounds, runs, bench.log)
    plain, headers = (find(series, kind) for kind in (Kind.PLAIN, Kind.HEADERS))
    table = tables.series_table(
        "Keys and headers: the core, 131-byte JSON events, 8 partitions",
        (tables.contestant("records"), tables.CODEC),
        tables.compared("vs. plain", lambda _: plain),
        series,
        "Keys and headers are also encoded.",
    )
    what = "core, keyed with headers: CPU relative to plain"
    target = tables.cpu_target(what, MOST, (headers, plain))
    return tables.Figures([table], [target], [result.to_dict() for result in series])


def measure_sizes(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure all value sizes."""
    runs = [
        (
            Series(contestant.name, facts={"value_bytes": size}),
            partial(
                contestant.send,
                bench.bootstrap_servers,
                values_file(size),
                min(plan.records, plan.records * _MEAN_BYTES // size),
                _LARGEST.get(contestant.name, {}),
            ),
        )
        for size in SIZES
        for contestant in named(OURS, LIBRDKAFKA)
    ]
    return size_figures(take_turns("value sizes", plan.rounds, runs, bench.log))


def size_figures(series: Sequence[Series]) -> tables.Figures:
    """Return one table. Ratios are relative to librdkafka with the same size."""

    def mb(result: Series, rate: float) -> str:
        return f"{rate * result.facts['value_bytes'] / _MB:,.0f}"

    figures = (
        ("MB/s", lambda result: mb(result, result.rate)),
        ("min - max", lambda result: " - ".join(mb(result, rate) for rate in result.rates)),
        tables.relative("vs. librdkafka", lambda result: find(series, LIBRDKAFKA, **result.facts)),
        ("CPU us/rec", lambda result: f"{result.cpu_us:,.{3 if result.cpu_us < 1 else 1}f}"),
        ("peak MiB", lambda result: f"{result.most('peak_mib'):.0f}"),
    )
    title = "Value sizes: random values, acks=all, idempotent"
    about = "MB count only the values; 1 MB is 1,000,000 bytes."
    names = (_PRODUCER, tables.fact("value_bytes", "bytes"))
    table = tables.series_table(title, names, figures, series, about)
    return tables.Figures([table], [_sizes_target(series)], [result.to_dict() for result in series])


def _sizes_target(series: Sequence[Series]) -> tables.Target:
    """Return the target "not slower than librdkafka", which the worst ratio must meet."""
    shares = {
        size: ratio(
            find(series, OURS, value_bytes=size), find(series, LIBRDKAFKA, value_bytes=size)
        )
        for size in SIZES
    }
    worst = min(shares, key=lambda size: shares[size])
    figure = f"{shares[worst]:.2f}x at {worst:,} B"
    what = "core, values of 10 B to 1 MB: minimum MB/s relative to librdkafka's"
    return tables.at_least(what, 1, "x", shares[worst], figure)


def measure_latency(bench: Workbench, plan: Plan) -> tables.Figures:
    """Measure the time from a record's scheduled time to its acknowledgement, at a fixed rate.

    The producers send the same bursts, one every 5 ms, each to the next partition.
    """
    runs = [
        (
            Series(contestant.name, facts={"rate": rate, "linger.ms": linger}),
            partial(
                contestant.send,
                bench.bootstrap_servers,
                lines_file(RANDOM),
                rate * _SECONDS,
                {"linger.ms": str(linger), RATE_OPTION: str(rate)},
                warmup=rate * _WARMUP_S,
            ),
        )
        for rate, linger in _LATENCIES
        for contestant in named(OURS, LIBRDKAFKA)
    ]
    return latency_figures(take_turns("latency", plan.rounds, runs, bench.log))


def latency_figures(series: Sequence[Series]) -> tables.Figures:
    """Return a table of percentiles and CPU use, and targets for the medians at linger.ms 0."""
    table = tables.series_table(
        "Latency: 100-byte random records, acks=all, idempotent, from due time to acknowledgement",
        (_PRODUCER, tables.fact("rate", "rec/s"), tables.fact("linger.ms", "linger.ms")),
        (
            ("p50 ms", lambda result: f"{result.median('p50_us') / 1000:.2f}"),
            ("p99 ms", lambda result: f"{result.median('p99_us') / 1000:.2f}"),
            ("p99.9 ms", lambda result: f"{result.median('p999_us') / 1000:.2f}"),
            ("max ms", lambda result: f"{result.median('max_us') / 1000:.1f}"),
            ("CPU", lambda result: f"{result.median('cpu_s') / result.median('seconds'):.0%}"),
        ),
        series,
        "Medians over the rounds. Bursts are 5 ms apart, which no latency includes; CPU is the "
        "share of one core.",
    )
    rates = dict.fromkeys(rate for rate, _ in _LATENCIES)
    targets = [_latency_target(series, rate) for rate in rates]
    return tables.Figures([table], targets, [result.to_dict() for result in series])


def _latency_target(series: Sequence[Series], rate: int) -> tables.Target:
    facts: dict[str, Any] = {"rate": rate, "linger.ms": 0}
    ours, theirs = find(series, OURS, **facts), find(series, LIBRDKAFKA, **facts)
    p50, reference = (result.median("p50_us") / 1000 for result in (ours, theirs))
    behind = p50 - reference
    figure = f"{behind:+.2f} ms ({p50:.2f} to {reference:.2f})"
    what = f"latency, {rate:,} rec/s, linger.ms 0: median minus librdkafka's"
    return tables.at_most(what, _BEHIND_MS, " ms", behind, figure)
