"""Run N new seeds: `python -m tools.torture --runs N`.

`--seed N` repeats a seed with debug logs.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path

from tools.support.kafka_node import NodeError
from tools.torture.cluster import TortureCluster, small_disk
from tools.torture.ledger import PRODUCER, summary
from tools.torture.producer.plan import Plan, draw
from tools.torture.producer.run import CONTEXTS, Result, log_everything, run


def main() -> None:
    """Run the seeds; exit with status 1 if a run fails."""
    arguments = _arguments()
    # SIGTERM's default action would not unmount the disk or delete the cluster's files.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with small_disk(arguments.disk) as disk:
        bad = _repeat(arguments, disk) if arguments.seed is not None else _run_new(arguments, disk)
    sys.exit(1 if bad else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="repeat the run with this seed")
    parser.add_argument("--secured", action="store_true", help="use SASL_SSL in every run")
    parser.add_argument(
        "--disk",
        type=Path,
        default=None,
        help="folder on a small file system, for tests with a full disk",
    )
    return parser.parse_args()


def _plan(arguments: argparse.Namespace, seed: int, disk: Path | None) -> Plan:
    plan = draw(seed, disk=disk is not None)
    return replace(plan, secured=True) if arguments.secured else plan


def _repeat(arguments: argparse.Namespace, disk: Path | None) -> bool:
    plan = _plan(arguments, arguments.seed, disk)
    _say(str(plan))
    with TortureCluster(disk) as cluster:
        log_everything(cluster)
        result = run(cluster, plan, debug=CONTEXTS)
    _show(result)
    return bool(result.wrong)


def _run_new(arguments: argparse.Namespace, disk: Path | None) -> bool:
    """Run the plans on one cluster, which is replaced if it breaks; return True if a run fails."""
    first = PRODUCER.next_seed()
    seeds = deque(range(first, first + arguments.runs))
    bad: list[int] = []
    while seeds:
        try:
            with TortureCluster(disk) as cluster:
                while seeds:
                    result = run(cluster, _plan(arguments, seeds.popleft(), disk))
                    PRODUCER.append(result.line())
                    _show(result)
                    bad += [result.plan.seed] if result.wrong else []
        except NodeError as error:
            _say(f"starting a new cluster: {error}")
    _say(summary(PRODUCER.lines()))
    _say(f"{arguments.runs} runs, {len(bad)} failed{': ' if bad else ''}{bad or ''}")
    return bool(bad)


def _show(result: Result) -> None:
    _say(
        "seed {seed:5} {seconds:5.1f} s {records:6} records {sessions:3} sessions "
        "({failed} failed) {scenario:30} {outcome}".format(**result.line())
    )
    for text in result.wrong[1:6]:
        _say(f"           {text}")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
