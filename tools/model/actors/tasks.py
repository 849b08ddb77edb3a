"""Steps of a planning's tasks. Each task has at most two attempts, of which one returns.

Both tasks take one step together, because the order of their writes is not observable. An attempt
that is lost represents one that failed, lost a race, or belongs to a retried stage; it continues,
and writes, at any later time.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.protocol import Verdict
from tools.model import broker
from tools.model.scenario import TASKS
from tools.model.world import Pc, Status, Transaction, with_driver

if TYPE_CHECKING:
    from tools.model.context import Context, Successors
    from tools.model.world import World


def run(context: Context, world: World, index: int) -> Successors:
    """Let all tasks check the batch, then write it, skip it, or fail."""
    driver = world.drivers[index]
    if driver.seen is None:
        raise ValueError("planning has read the log")
    verdict = context.rules.judge(driver.seen, context.caller(world, index))
    if verdict is Verdict.SKIP:
        return [("the tasks skip the batch", _returned(world, index, (None,) * TASKS))]
    if verdict is not Verdict.WRITE:
        refused = driver._replace(pc=Pc.RAISED, complete=False, seen=None)
        return [(f"the tasks refuse: {verdict}", with_driver(world, index, refused))]
    rows = [context.scenario.has_rows(driver.batch, each) for each in range(TASKS)]
    may_lose = [min(left, has) for left, has in zip(world.budget.lost, rows, strict=True)]
    choices = product(*[(False, True)[: 1 + each] for each in may_lose])
    successors = [_write(context, world, index, lost) for lost in choices]
    if world.budget.failures:
        successors.append(_fail(context, world, index))
    return successors


def wake(world: World, lost: Transaction) -> World:
    """Resume a lost attempt; its result is ignored."""
    left = list(world.zombies)
    left.remove(lost)
    return broker.begin(world._replace(zombies=tuple(left)), lost, Status.OPEN)


def _write(context: Context, world: World, index: int, lost: tuple[bool, ...]) -> tuple[str, World]:
    messages: list[Transaction | None] = []
    zombies = list(world.zombies)
    budget = list(world.budget.lost)
    for partition in range(TASKS):
        rows = context.scenario.has_rows(world.drivers[index].batch, partition)
        if lost[partition]:
            budget[partition] -= 1
            zombies.append(context.attempt(world, index, partition, 0))
        attempt = context.attempt(world, index, partition, int(lost[partition]))
        if rows or context.rules.commits_empty:
            world = broker.begin(world, attempt, Status.OPEN if rows else Status.EMPTY)
        messages.append(attempt if rows or context.rules.commits_empty else None)
    world = world._replace(
        zombies=tuple(sorted(zombies)), budget=world.budget._replace(lost=tuple(budget))
    )
    retried = "".join(f", task {each} in its second attempt" for each in range(TASKS) if lost[each])
    return f"the tasks write{retried}", _returned(world, index, tuple(messages))


def _fail(context: Context, world: World, index: int) -> tuple[str, World]:
    attempt = context.attempt(world, index, 0, 0)
    left = world.budget._replace(failures=world.budget.failures - 1)
    world = broker.begin(world._replace(budget=left), attempt, Status.OPEN)
    raised = world.drivers[index]._replace(
        pc=Pc.RAISED, complete=False, seen=None, messages=(attempt,)
    )
    return "task 0 writes, task 1 fails for good", with_driver(world, index, raised)


def _returned(world: World, index: int, messages: tuple[Transaction | None, ...]) -> World:
    driver = world.drivers[index]
    driver = driver._replace(pc=Pc.COMMIT_FIRST, complete=True, seen=None, messages=messages)
    return with_driver(world, index, driver)
