"""Run N new seeds: `python -m tools.torture [streams] --runs N`. `--seed N` repeats a seed.

The scenarios are those with producer sessions, or those with Spark streams. `planted` runs each bug
that the stream scenarios must find. After SIGTERM, the command finishes the current runs and exits.
"""

import argparse
import sys

from tools.torture.cluster import Release
from tools.torture.harness import C, P, Scenarios
from tools.torture.producer.run import ProducerScenarios, producer_plans
from tools.torture.streams.run import StreamScenarios, find_planted_bugs, stream_plans
from tools.torture.streams.scenarios import Sink

_SETS = ("producer", "streams", "planted")


def main() -> None:
    """Run the scenarios; exit with status 1 if a run fails."""
    arguments = _arguments()
    if arguments.scenarios == "planted":
        sys.exit(0 if find_planted_bugs() else 1)
    if arguments.scenarios == "streams":
        sys.exit(_run_all(StreamScenarios(), stream_plans(arguments)))
    producer = ProducerScenarios(verbose=arguments.seed is not None)
    sys.exit(_run_all(producer, producer_plans(arguments)))


def _run_all(scenarios: Scenarios[P, C], plans: list[P]) -> int:
    """Run plans, print a summary, and return the exit status."""
    scenarios.run_all(plans)
    failed = f": {scenarios.failed}" if scenarios.failed else ""
    print(f"{scenarios.done} of {len(plans)} runs, {len(scenarios.failed)} failed{failed}")
    return 1 if scenarios.failed or scenarios.done < len(plans) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture", description=__doc__)
    parser.add_argument("scenarios", nargs="?", choices=_SETS, default="producer")
    parser.add_argument("--runs", type=int, default=200, help="number of runs, of each sink")
    parser.add_argument("--seed", type=int, help="repeat the run with this seed")
    producer = parser.add_argument_group("producer")
    producer.add_argument("--secured", action="store_true", help="use SASL_SSL in every run")
    streams = parser.add_argument_group("streams")
    streams.add_argument("--sink", type=Sink, choices=list(Sink), action="append")
    streams.add_argument("--kafka", type=Release, choices=list(Release), default=Release.V4_3_1)
    streams.add_argument("--two-phase", action="store_true", help="with twoPhaseCommit")
    return parser.parse_args()


if __name__ == "__main__":
    main()
