"""Run N new seeds: `python -m tools.torture --runs N`. `--seed N` repeats a seed."""

import argparse
import signal
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path

from tools.support.kafka_node import NodeError
from tools.torture.cluster import TortureCluster
from tools.torture.ledger import PRODUCER
from tools.torture.producer.plan import draw
from tools.torture.producer.run import CONTEXTS, Result, log_everything, run


def main() -> None:
    """Run the seeds; exit with status 1 if a run fails."""
    arguments = _arguments()
    # SIGTERM's default action would not delete the cluster's files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seeds = deque([arguments.seed] if arguments.seed else PRODUCER.new_seeds(arguments.runs))
    bad: list[int] = []
    while seeds:
        try:
            _run_seeds(seeds, bad, arguments)
        except NodeError as error:
            print(f"starting a new cluster: {error}", flush=True)
    print(f"{len(bad)} runs failed{': ' if bad else ''}{bad or ''}", flush=True)
    sys.exit(1 if bad else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, help="repeat the run with this seed, with debug logs")
    parser.add_argument("--secured", action="store_true", help="use SASL_SSL in every run")
    parser.add_argument(
        "--disk", type=Path, help="folder on a small file system, for tests with a full disk"
    )
    return parser.parse_args()


def _run_seeds(seeds: deque[int], bad: list[int], arguments: argparse.Namespace) -> None:
    """Run the seeds on one cluster; add the seeds of failed runs to `bad`."""
    with TortureCluster(arguments.disk) as cluster:
        if arguments.seed:
            log_everything()
        while seeds:
            plan = draw(seeds.popleft(), disk=arguments.disk is not None)
            plan = replace(plan, secured=plan.secured or arguments.secured)
            result = run(cluster, plan, debug=CONTEXTS if arguments.seed else "")
            if not arguments.seed:
                PRODUCER.append(result.line())
            _show(result)
            bad += [plan.seed] if result.wrong else []


def _show(result: Result) -> None:
    print(
        "seed {seed:5} {seconds:5.1f} s {records:6} records {sessions:3} sessions "
        "({failed} failed) {scenario:30} {outcome}".format(**result.line()),
        flush=True,
    )
    for text in result.wrong[1:6]:
        print(f"           {text}", flush=True)


if __name__ == "__main__":
    main()
