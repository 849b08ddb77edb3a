"""Do N runs with new seeds: `python -m tools.torture.streams --runs N`. `--seed` repeats a run.

After SIGTERM, the command finishes the current runs and exits.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tools.docs.runs import render_runs
from tools.torture.cluster import Release
from tools.torture.ledger import STREAMS
from tools.torture.streams.plan import Choice, Plan, draw
from tools.torture.streams.run import Campaign
from tools.torture.streams.scenarios import Sink


def main() -> None:
    """Run the seeds; exit with status 1 if a run fails."""
    arguments = _arguments()
    plans = [plan for sink in arguments.sink or Sink for plan in _plans(arguments, sink)]
    campaign = Campaign(plans, Path(tempfile.mkdtemp(prefix="torture-eos-")))
    signal.signal(signal.SIGTERM, lambda *_: campaign.stop())
    campaign.run()
    print(render_runs())
    print(f"{campaign.done} of {len(plans)} runs, {campaign.failed} failed")
    sys.exit(1 if campaign.failed or campaign.done < len(plans) else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture.streams")
    parser.add_argument("--runs", type=int, default=30, help="number of runs per sink")
    parser.add_argument("--seed", type=int, default=None, help="repeat the run with this seed")
    parser.add_argument("--sink", type=Sink, choices=list(Sink), action="append")
    parser.add_argument("--kafka", type=Release, choices=list(Release), default=Release.V4_3_1)
    parser.add_argument("--two-phase", action="store_true", help="with twoPhaseCommit")
    return parser.parse_args()


def _plans(arguments: argparse.Namespace, sink: Sink) -> list[Plan]:
    seeds = [arguments.seed] if arguments.seed else STREAMS.new_seeds(arguments.runs, sink=sink)
    choice = Choice(release=arguments.kafka, two_phase=arguments.two_phase)
    return [draw(seed, sink, choice) for seed in seeds]


if __name__ == "__main__":
    main()
