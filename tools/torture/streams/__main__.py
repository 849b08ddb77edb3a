"""Run new seeds with `python -m tools.torture.streams --runs N`; `--seed N` repeats a seed.

After SIGTERM, the command finishes the current runs and exits.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from tools.torture.cluster import Release
from tools.torture.ledger import Ledger
from tools.torture.streams.plan import Choice, draw
from tools.torture.streams.run import Campaign
from tools.torture.streams.scenarios import SCENARIOS, Kind, Sink, Step
from tools.torture.streams.table import LEDGER, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.torture.streams.plan import Plan


def main() -> None:
    """Return exit status 1 if a run of this call has failed."""
    arguments = _arguments()
    ledger = Ledger(arguments.ledger)
    if arguments.table:
        _say(table(ledger.lines()))
        return
    sinks = arguments.sink or list(Sink)
    plans = [plan for sink in sinks for plan in _plans(arguments, sink, ledger)]
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="torture-eos-"))
    campaign = Campaign(plans, folder, ledger, _say, keep=arguments.keep)
    signal.signal(signal.SIGTERM, lambda *_: campaign.stop())
    campaign.run(arguments.jobs)
    _say(table(ledger.lines()))
    _say(f"{campaign.done} of {len(plans)} runs, {campaign.failed} failed")
    sys.exit(1 if campaign.failed or campaign.done < len(plans) else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture.streams")
    parser.add_argument("--runs", type=int, default=30, help="of each sink")
    parser.add_argument("--seed", type=int, default=None, help="repeat this one")
    parser.add_argument("--first", type=int, default=1, help="seed to begin with")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--sink", type=Sink, choices=list(Sink), action="append")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), action="append")
    parser.add_argument("--step", type=Step, choices=list(Step), default=None)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=None)
    parser.add_argument("--kafka", type=Release, choices=list(Release), default=Release.V4_3_1)
    parser.add_argument("--two-phase", action="store_true", help="with twoPhaseCommit")
    parser.add_argument("--table", action="store_true", help="only print the ledger's table")
    parser.add_argument("--folder", type=Path, default=None, help="for runs; failing ones stay")
    parser.add_argument("--keep", action="store_true", help="folders of runs that are ok, too")
    parser.add_argument("--ledger", type=Path, default=LEDGER)
    return parser.parse_args()


def _plans(arguments: argparse.Namespace, sink: Sink, ledger: Ledger) -> Iterator[Plan]:
    seeds = ledger.new_seeds(arguments.first, arguments.runs, sink=sink)
    if arguments.seed:
        seeds = [arguments.seed]
    kinds = [kind for kind in arguments.kind or () if sink in SCENARIOS[kind].sinks] or [None]
    for seed, kind in zip(seeds, cycle(kinds), strict=False):
        choice = Choice(
            kind=kind,
            step=arguments.step,
            nodes=arguments.nodes,
            release=arguments.kafka,
            two_phase=arguments.two_phase,
        )
        yield draw(seed, sink, choice)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
