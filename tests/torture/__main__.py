"""`python -m tests.torture --runs N` goes on with new seeds, `--seed N` repeats one verbosely."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from tests.torture.cluster import TortureCluster
from tests.torture.disk import small_disk
from tests.torture.ledger import Ledger
from tests.torture.plan import draw
from tests.torture.run import Result, run


def main() -> None:
    """Exit status 1 when a run of this call has failed."""
    arguments = _arguments()
    with small_disk(arguments.disk) as disk, TortureCluster(disk) as cluster:
        if arguments.seed is not None:
            bad = _repeat(cluster, arguments.seed, disk=disk is not None)
        else:
            bad = _go_on(cluster, arguments, disk=disk is not None)
    sys.exit(1 if bad else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.torture")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="repeat this one")
    parser.add_argument("--first", type=int, default=None, help="seed to begin with")
    parser.add_argument("--disk", type=Path, default=None, help="folder on a small file system")
    parser.add_argument("--ledger", type=Path, default=Ledger().path)
    return parser.parse_args()


def _repeat(cluster: TortureCluster, seed: int, *, disk: bool) -> bool:
    logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="%(created).3f %(message)s")
    logging.getLogger("kafka").setLevel(logging.ERROR)
    plan = draw(seed, disk=disk)
    _say(str(plan))
    for proxy in cluster.proxies.values():
        proxy.watch(lambda text: print(text, file=sys.stderr))
    result = run(cluster, plan, debug="broker,metadata,queue,msg,protocol,eos")
    _show(result)
    return bool(result.wrong)


def _go_on(cluster: TortureCluster, arguments: argparse.Namespace, *, disk: bool) -> bool:
    ledger = Ledger(arguments.ledger)
    first = arguments.first or ledger.next_seed()
    bad = []
    for seed in range(first, first + arguments.runs):
        result = run(cluster, draw(seed, disk=disk))
        ledger.append(result.line())
        _show(result)
        if result.wrong:
            bad.append(seed)
    _say(ledger.summary())
    _say(f"{arguments.runs} runs, {len(bad)} failed{': ' if bad else ''}{bad or ''}")
    return bool(bad)


def _show(result: Result) -> None:
    line = result.line()
    _say(
        f"seed {line['seed']:5} {line['seconds']:5.1f} s {line['records']:6} records "
        f"{line['sessions']:3} sessions ({line['failed']} failed) "
        f"{line['scenario']:30} {line['outcome']}"
    )
    for text in result.wrong[1:6]:
        _say(f"           {text}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
