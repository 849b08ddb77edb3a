"""`python -m tools.torture_eos --runs N` goes on with new seeds, `--seed N` repeats one."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.kafka.node import NodeError
from tools.ledger import Ledger
from tools.torture_eos.kafka.cluster import EosCluster
from tools.torture_eos.kafka.reading import open_transactions
from tools.torture_eos.plans.kinds import ONCE, RECIPES, Kind, Sink
from tools.torture_eos.plans.plan import Choice, Plan, draw
from tools.torture_eos.plans.steps import Step
from tools.torture_eos.run import Result, run
from tools.torture_eos.spark.driver import Drivers
from tools.torture_eos.table import OK, table

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEDGER = Path(__file__).with_name("ledger.jsonl")


def main() -> None:
    """Exit status 1 when a run of this call has failed."""
    arguments = _arguments()
    ledger = Ledger(arguments.ledger)
    if arguments.table:
        _say(table(ledger.lines()))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sinks = arguments.sink or list(Sink)
    plans = [plan for sink in sinks for plan in _plans(arguments, sink, ledger)]
    bad = _run_all(plans, arguments.folder, ledger, keep=arguments.keep)
    _say(table(ledger.lines()))
    _say(f"{len(plans)} runs, {bad} failed")
    sys.exit(1 if bad else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.torture_eos")
    parser.add_argument("--runs", type=int, default=30, help="of each sink")
    parser.add_argument("--seed", type=int, default=None, help="repeat this one")
    parser.add_argument("--first", type=int, default=None, help="seed to begin with")
    parser.add_argument("--sink", type=Sink, choices=list(Sink), action="append")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), action="append")
    parser.add_argument("--step", type=Step, choices=list(Step), default=None)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=None)
    parser.add_argument("--table", action="store_true", help="only print the ledger's table")
    parser.add_argument("--folder", type=Path, default=None, help="for runs; failing ones stay")
    parser.add_argument("--keep", action="store_true", help="folders of runs that are ok, too")
    parser.add_argument("--ledger", type=Path, default=_LEDGER)
    return parser.parse_args()


def _plans(arguments: argparse.Namespace, sink: Sink, ledger: Ledger) -> Iterable[Plan]:
    """In the order of what they need, so that clusters and drivers serve many runs."""
    first = arguments.seed or arguments.first or ledger.next_seed(sink=sink)
    seeds = range(first, first + (1 if arguments.seed else arguments.runs))
    kinds = [kind for kind in arguments.kind or () if sink in RECIPES[kind].sinks] or [None]
    plans = []
    for seed, kind in zip(seeds, cycle(kinds), strict=False):
        choice = Choice(kind=kind, step=arguments.step, nodes=arguments.nodes)
        plans.append(draw(seed, sink, choice))
    return sorted(plans, key=lambda plan: (plan.nodes, str(plan.profile), plan.seed))


def _run_all(plans: list[Plan], folder: Path | None, ledger: Ledger, *, keep: bool) -> int:
    folder = folder or Path(tempfile.mkdtemp(prefix="torture-eos-"))
    folder.mkdir(parents=True, exist_ok=True)
    bad = 0
    for nodes in sorted({plan.nodes for plan in plans}):
        todo = [plan for plan in plans if plan.nodes == nodes]
        while todo:
            try:
                bad += _on_one_cluster(nodes, todo, folder, ledger, keep=keep)
            except NodeError as error:
                _say(f"a new cluster is needed: {error}")
    return bad


def _on_one_cluster(
    nodes: int, todo: list[Plan], folder: Path, ledger: Ledger, *, keep: bool
) -> int:
    """As many as one cluster survives; what is done is taken from `todo`."""
    bad = 0
    good: list[Result] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(EosCluster(nodes))
        drivers = Drivers(Path(tempfile.mkdtemp(prefix="drivers-", dir=folder)))
        stack.callback(drivers.close)
        while todo:
            plan = todo.pop(0)
            own = folder / f"{plan.sink}-{plan.seed}"
            result = run(cluster, drivers, plan, own)
            ledger.append(result.line())
            _show(result, folder)
            bad += bool(result.wrong)
            good += [result] if result.outcome == OK else []
            if not result.wrong and not keep:
                shutil.rmtree(own, ignore_errors=True)
        return bad + _left_open(cluster, good)


def _left_open(cluster: EosCluster, good: list[Result]) -> int:
    """How many transactions of runs that were ok are open still; each is told."""
    topics = {result.topic for result in good if result.plan.sink in ONCE}
    found = open_transactions(cluster.bootstrap_servers) if topics else []
    left = [name for name in found if name.split("/")[0] in topics]
    for name in left:
        _say(f"left open: {name}")
    return len(left)


def _show(result: Result, folder: Path) -> None:
    line = result.line()
    _say(
        f"{line['sink']:12} seed {line['seed']:5} {line['seconds']:5.1f} s {line['nodes']} nodes "
        f"{line['kind']} at {line['step']}: {line['starts']} starts, {line['lost']} lost, "
        f"{line['doubled']} doubled, {line['aborted']} aborted: {line['result']}"
    )
    for text in result.wrong[1:6]:
        _say(f"           {text}")
    if result.wrong:
        _say(f"           see {folder}/{line['sink']}-{line['seed']}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
