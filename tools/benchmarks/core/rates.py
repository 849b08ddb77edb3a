"""Throughput of the producer core compared with librdkafka in C and Java, on a real Kafka.

There are three parts: codecs and payloads, keys and headers, and value sizes. Each run is a
separate process. It sends the same records with acks=all and idempotence and, after a warm-up,
measures the time from its first record to its last acknowledgement. The contestants take turns, so
that changes in the machine's load affect all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core.contestants import (
    EVENTS,
    JAVA_DEFAULTS,
    LIBRDKAFKA,
    OURS,
    RANDOM,
    SINK,
    present,
)
from tools.benchmarks.core.job import Job, Kind
from tools.benchmarks.payload import lines_file, values_file
from tools.benchmarks.results import (
    Series,
    Table,
    Target,
    at_least,
    at_most,
    compared,
    find,
    notes,
    times,
)
from tools.benchmarks.topics import fresh_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from tools.benchmarks.core.contestants import Contestant
    from tools.benchmarks.results import Sample


_TITLES = {
    RANDOM: "Core: 100-byte random records, acks=all, idempotent",
    EVENTS: "Core: 131-byte JSON events, acks=all, idempotent",
}
_NAMES = {RANDOM: "100-byte records", EVENTS: "JSON events"}
CPU_SHARE = {RANDOM: 0.25, EVENTS: 0.2}
"""Maximum ratio of the core's CPU per record to librdkafka's."""
_ABOUT = (
    "Medians over the rounds; start-up CPU (process start, imports, compilation, warm-up) is not "
    "in CPU us/rec."
)


@dataclass(frozen=True, slots=True)
class CoreFigures:
    """Measured series by payload."""

    series: Mapping[str, Sequence[Series]]

    def tables(self) -> list[Table]:
        """Return one table for each payload."""
        return [core_table(_TITLES[payload], found) for payload, found in self.series.items()]

    def targets(self) -> list[Target]:
        """Return one target for each payload."""
        return [core_target(payload, found) for payload, found in self.series.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {name: [one.to_dict() for one in found] for name, found in self.series.items()}


def core_table(title: str, series: Sequence[Series]) -> Table:
    """Return rates, CPU and memory. Ratios are relative to librdkafka with the same codec."""
    rows = [
        (*compared(one, find(series, LIBRDKAFKA, one.codec), digits=3), *_cost(one))
        for one in series
    ]
    columns = ("producer", "codec", "M rec/s", "min - max", "to librdkafka", "CPU us/rec")
    more = ("to librdkafka", "peak MiB", "start-up CPU s")
    return Table(title, (*columns, *more), rows, notes(_ABOUT, series))


def core_target(payload: str, series: Sequence[Series]) -> Target:
    """Return the target for client CPU per record relative to librdkafka, without compression."""
    ours, reference = find(series, OURS), find(series, LIBRDKAFKA)
    share, figure = None, ""
    if ours and reference:
        share = ours.cpu_us / reference.cpu_us
        figure = f"{share:.2f}x ({ours.cpu_us:.3f} of {reference.cpu_us:.3f} us)"
    what = f"core, {_NAMES[payload]}: client CPU relative to librdkafka's"
    return at_most(what, CPU_SHARE[payload], "x", share, figure)


def _cost(one: Series) -> tuple[str, str]:
    """Return a note about memory and start-up CPU."""
    if not one.samples:
        return ("-", "-")
    return (f"{one.peak_mib:.0f}", f"{one.startup_cpu_s:.1f}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorePlan:
    """Records and warm-up of each run, rounds, and the configurations."""

    records: int
    warmup: int
    rounds: int

    def events(self) -> Iterable[tuple[str, str]]:
        """Return the payload and codec of each configuration."""
        return ((RANDOM, "none"), (EVENTS, "none"), (EVENTS, "lz4"), (EVENTS, "zstd"))


def measure_core(bootstrap_servers: str, plan: CorePlan, log: Callable[[str], None]) -> CoreFigures:
    """Run all rounds and return the series by payload."""
    contestants = present(log)
    results: dict[str, list[Series]] = {RANDOM: [], EVENTS: []}
    configurations = [
        (contestant, payload, Series(contestant.name, codec))
        for payload, codec in plan.events()
        for contestant in contestants
        if payload == RANDOM or contestant.name != JAVA_DEFAULTS
    ]
    for _, payload, series in configurations:
        results[payload].append(series)
    for number in range(plan.rounds):
        for contestant, payload, series in configurations:
            log(f"core, round {number + 1} of {plan.rounds}: {contestant.name}, {series.codec}")
            one = partial(_run, contestant, series.codec, payload, plan, bootstrap_servers)
            series.add(one, log)
    return CoreFigures(results)


def _run(
    contestant: Contestant, codec: str, payload: str, plan: CorePlan, bootstrap_servers: str
) -> Sample:
    options = {"compression.type": codec}
    return _send(
        contestant, bootstrap_servers, lines_file(payload), plan.warmup, plan.records, options
    )


def _send(
    contestant: Contestant,
    bootstrap_servers: str,
    payload: Path,
    warmup: int,
    records: int,
    options: Mapping[str, str],
    kind: Kind = Kind.PLAIN,
) -> Sample:
    with fresh_topic(bootstrap_servers, warmup + records) as topic:
        return contestant.run(
            Job(
                bootstrap_servers=bootstrap_servers,
                topic=topic,
                payload=payload,
                warmup=warmup,
                records=records,
                options={**contestant.options, **options},
                kind=kind,
            )
        )


MOST = 2.0
"""Maximum ratio of the CPU for keyed records with headers to the CPU for plain records."""
_KIND_NAMES = {Kind.PLAIN: "null keys", Kind.KEYED: "keyed", Kind.HEADERS: "keyed, two headers"}


@dataclass(frozen=True, slots=True)
class KindFigures:
    """One series per kind of record."""

    series: Sequence[Series]

    def tables(self) -> list[Table]:
        """Return one table. Ratios are relative to plain records."""
        plain = find(self.series, _KIND_NAMES[Kind.PLAIN])
        rows = [compared(one, plain, digits=3) for one in self.series]
        columns = ("records", "codec", "M rec/s", "min - max", "to plain", "CPU us/rec", "to plain")
        title = "Keys and headers: the core, 131-byte JSON events, 8 partitions"
        return [
            Table(title, columns, rows, notes("Keys and headers are also encoded.", self.series))
        ]

    def targets(self) -> list[Target]:
        """Return the target for keyed records with headers, relative to plain records."""
        plain, full = (find(self.series, _KIND_NAMES[each]) for each in (Kind.PLAIN, Kind.HEADERS))
        ratio, figure = None, ""
        if plain and full:
            ratio = full.cpu_us / plain.cpu_us
            figure = f"{ratio:.2f}x ({full.cpu_us:.3f} to {plain.cpu_us:.3f} us)"
        what = "core, keyed with headers: CPU relative to plain"
        return [at_most(what, MOST, "x", ratio, figure)]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [one.to_dict() for one in self.series]


def measure_headers(
    bootstrap_servers: str, plan: CorePlan, log: Callable[[str], None]
) -> KindFigures:
    """Run all rounds, with the kinds in turn."""
    series = {kind: Series(name, "none") for kind, name in _KIND_NAMES.items()}
    for number in range(plan.rounds):
        for kind, one in series.items():
            log(f"keys and headers, round {number + 1} of {plan.rounds}: {one.contestant}")
            one.add(partial(_run_kind, kind, plan, bootstrap_servers), log)
    return KindFigures(list(series.values()))


def _run_kind(kind: Kind, plan: CorePlan, bootstrap_servers: str) -> Sample:
    payload = lines_file(EVENTS)
    return _send(SINK, bootstrap_servers, payload, plan.warmup, plan.records, {}, kind)


SIZES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
"""Value sizes in bytes."""
_LARGEST = {LIBRDKAFKA: {"message.max.bytes": "1048576"}}
"""Maximum record size; librdkafka's default is 1,000,000 bytes, including the key and the record
framing.
"""
_WARM_UP_SHARE = 5
_MB = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesPlan:
    """Maximum records and value bytes of a run, and the number of rounds."""

    records: int
    value_bytes: int
    rounds: int

    def count(self, size: int) -> int:
        """Return the number of records in a run with values of `size` bytes."""
        return min(self.records, self.value_bytes // size)


@dataclass(frozen=True, slots=True)
class SizeFigures:
    """The series of each contestant and value size."""

    series: Mapping[tuple[str, int], Series]

    def rate(self, contestant: str, size: int) -> float | None:
        """Return the median throughput of values in MB/s, or None if it was not measured."""
        found = self.series.get((contestant, size))
        return found.rate * size / _MB if found and found.samples else None

    def tables(self) -> list[Table]:
        """Return one table. Ratios are relative to librdkafka with the same size."""
        rows = [self._row(name, size, one) for (name, size), one in self.series.items()]
        columns = ("producer", "bytes", "MB/s", "min - max", "to librdkafka", "CPU us/rec")
        title = "Value sizes: random values, acks=all, idempotent"
        about = notes(
            "MB count only the values; 1 MB is 1,000,000 bytes.", list(self.series.values())
        )
        return [Table(title, (*columns, "peak MiB"), rows, about)]

    def targets(self) -> list[Target]:
        """Return the target "not slower than librdkafka", which the worst ratio must meet."""
        shares = {
            size: ours / theirs
            for size in SIZES
            if (ours := self.rate(OURS, size)) and (theirs := self.rate(LIBRDKAFKA, size))
        }
        share, figure = None, ""
        if shares:
            worst = min(shares, key=lambda size: shares[size])
            share = shares[worst]
            figure = f"{share:.2f}x at {worst:,} B"
        what = "core, values of 10 B to 1 MB: minimum MB/s relative to librdkafka's"
        return [at_least(what, 1, "x", share, figure)]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [{"value_bytes": size, **one.to_dict()} for (_, size), one in self.series.items()]

    def _row(self, name: str, size: int, one: Series) -> tuple[str, ...]:
        rate = self.rate(name, size)
        if rate is None:
            return (name, f"{size:,}", "failed", *["-"] * 4)
        low, high = one.slowest * size / _MB, one.fastest * size / _MB
        return (
            name,
            f"{size:,}",
            f"{rate:,.0f}",
            f"{low:,.0f} - {high:,.0f}",
            times(rate, self.rate(LIBRDKAFKA, size)),
            f"{one.cpu_us:,.3g}" if one.cpu_us < 100 else f"{one.cpu_us:,.0f}",
            f"{one.peak_mib:.0f}",
        )


def measure_sizes(
    bootstrap_servers: str, plan: SizesPlan, log: Callable[[str], None]
) -> SizeFigures:
    """Run all rounds, with the contestants in turn."""
    contestants = [each for each in present(log) if each.name in {OURS, LIBRDKAFKA}]
    configurations = [
        (each, size, Series(each.name, f"{size:,} B")) for size in SIZES for each in contestants
    ]
    for number in range(plan.rounds):
        for each, size, series in configurations:
            log(f"value sizes, round {number + 1} of {plan.rounds}: {each.name}, {size:,} B")
            series.add(partial(_run_size, each, size, plan.count(size), bootstrap_servers), log)
    return SizeFigures({(each.name, size): series for each, size, series in configurations})


def _run_size(contestant: Contestant, size: int, records: int, bootstrap_servers: str) -> Sample:
    warmup, options = records // _WARM_UP_SHARE, _LARGEST.get(contestant.name, {})
    return _send(contestant, bootstrap_servers, values_file(size), warmup, records, options)
