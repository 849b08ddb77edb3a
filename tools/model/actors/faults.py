"""Faults and delayed events that occur independently of a driver's own steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.model import broker
from tools.model.actors import tasks
from tools.model.actors.commit import raised
from tools.model.context import stopped
from tools.model.world import ENDED, Pc, Status, with_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.model.context import Successors
    from tools.model.world import World

_COMMIT = frozenset(
    {
        Pc.COMMIT_FIRST,
        Pc.COMMIT_SECOND,
        Pc.APPEND,
        Pc.ROLL,
        Pc.END,
        Pc.DONE,
        Pc.FOUND,
        Pc.LIST,
        Pc.SWEEP,
    }
)
_IDLE = ENDED | {Pc.DOWN}
"""Driver steps at which a crash has no effect."""


def faults(world: World) -> Iterator[tuple[str, str, World]]:
    """Return (actor, event, next world) of every fault that can happen now."""
    for zombie in sorted(set(world.zombies)):
        yield "lost attempt", f"wakes up and writes {zombie.name}", tasks.wake(world, zombie)
    if world.budget.timeouts:
        yield from _timeouts(world)
    for index, driver in enumerate(world.drivers):
        who = f"driver {index + 1}"
        if world.budget.crashes[index] and driver.pc not in _IDLE:
            for what, crashed in _crashes(world, index):
                yield who, what, crashed
        if world.budget.interrupts and index == 0 and driver.pc in _COMMIT:
            yield who, "is interrupted in commit(), which goes on as driver 2", _interrupt(world)


def _timeouts(world: World) -> Iterator[tuple[str, str, World]]:
    left = world.budget._replace(timeouts=world.budget.timeouts - 1)
    for each, status in world.transactions:
        if status is Status.OPEN:
            timed_out = broker.time_out(world, each)._replace(budget=left)
            yield "coordinator", f"aborts {each.name} at its timeout", timed_out


def _crashes(world: World, index: int) -> Successors:
    crashes = list(world.budget.crashes)
    crashes[index] -= 1
    world = world._replace(budget=world.budget._replace(crashes=tuple(crashes)))
    crashed = [("dies", with_driver(world, index, stopped(world.drivers[index])))]
    if world.drivers[index].pc in _COMMIT:
        crashed.append(("loses the process that runs commit()", raised(world, index)))
    return crashed


def _interrupt(world: World) -> World:
    """Let commit() raise in Spark but continue, as a separate driver."""
    left = world.budget._replace(interrupts=world.budget.interrupts - 1)
    holder = 1 if world.holder == 0 else world.holder
    ghost = world.drivers[0]._replace(ghost=True)
    return raised(with_driver(world._replace(budget=left, holder=holder), 1, ghost), 0)
