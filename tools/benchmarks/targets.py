"""What the project aims at, judged by the medians of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.benchmarks import core, encoder, spark
from tools.benchmarks.sample import find

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.benchmarks.encoder import EncoderResult
    from tools.benchmarks.sample import Series

_ENCODER = {encoder.NULL_KEYS: 8e6, encoder.KEYED: 4e6}
_CPU_SHARE = 1 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One aim: `met` is None when what it compares with was not measured."""

    what: str
    wanted: str
    figure: str
    met: bool | None

    @property
    def verdict(self) -> str:
        """In a word."""
        return {True: "yes", False: "NO", None: "not measured"}[self.met]


def encoder_targets(results: Sequence[EncoderResult]) -> Iterator[Target]:
    """Records a second that one core frames."""
    for result in results:
        wanted = _ENCODER[result.name]
        yield Target(
            what=f"encoder, {result.name}",
            wanted=f">= {wanted / 1e6:.0f} M rec/s",
            figure=f"{result.median / 1e6:.1f} M rec/s (best {result.best / 1e6:.1f})",
            met=result.median >= wanted,
        )


def core_targets(series: Sequence[Series]) -> Iterator[Target]:
    """Client CPU per record against librdkafka's; `series` is that of the random payload."""
    ours, reference = find(list(series), core.OURS), find(list(series), core.LIBRDKAFKA)
    figure, met = "librdkafka was not measured", None
    if ours and reference:
        share = ours.cpu_us / reference.cpu_us
        figure = f"{ours.cpu_us:.3f} of {reference.cpu_us:.3f} us ({share:.2f})"
        met = share <= _CPU_SHARE
    yield Target(
        what="core, client CPU per record", wanted="<= 1/3 of librdkafka", figure=figure, met=met
    )


def spark_targets(series: Sequence[Series]) -> Iterator[Target]:
    """The sink against Spark's own, tuned, for each codec."""
    for codec in ("none", "lz4", "zstd"):
        ours, theirs = find(list(series), spark.OURS, codec), find(list(series), spark.JVM, codec)
        if ours and theirs:
            yield Target(
                what=f"sink, {codec}",
                wanted=">= the tuned JVM sink",
                figure=f"{ours.rate / 1e6:.2f} to {theirs.rate / 1e6:.2f} M rec/s "
                f"({ours.rate / theirs.rate:.2f}x)",
                met=ours.rate >= theirs.rate,
            )
