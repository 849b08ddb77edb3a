"""Merge equivalent worlds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from spark_kafka_sink.exactly_once.protocol import Decided, Done, Nothing, Planning
from tools.model.broker import awaited
from tools.model.world import Pc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.model.world import State, World

T = TypeVar("T")
_IN_EPOCH = frozenset(
    {
        Pc.COMMIT_FIRST,
        Pc.COMMIT_SECOND,
        Pc.APPEND,
        Pc.ROLL,
        Pc.END,
        Pc.DONE,
        Pc.FOUND,
        Pc.ABORT_READ,
        Pc.ABORT_END,
        Pc.ABORT_DONE,
        Pc.GIVE_UP,
    }
)
"""Steps at which a driver can still append with its epoch."""


def normalised(world: World) -> World:
    """Return an equivalent world without unused epochs and marks and unreferenced transactions.

    A transaction that is not part of a message or a decision can no longer be committed. It only
    blocks readers until it is aborted.
    """
    if world.holder is not None and world.drivers[world.holder].pc not in _IN_EPOCH:
        world = world._replace(holder=None)
    if world.before is not None and not world.budget.stale:
        world = world._replace(before=None)
    world = _without_dead_plannings(_without_dead_marks(world))
    known = awaited(world)
    if len(known) >= len(world.transactions):
        return world
    kept = tuple([(each, status) for each, status in world.transactions if each in known])
    return world._replace(transactions=kept)


def _without_dead_marks(world: World) -> World:
    """Drop the marks with nonces that no driver has."""
    states = (world.log, world.before, *_known(world))
    if all(state is None or isinstance(state, Decided) or not state.given_up for state in states):
        return world
    nonces = {driver.nonce for driver in world.drivers}
    drivers = tuple(
        [
            driver._replace(seen=_marked(driver.seen, nonces), first=_marked(driver.first, nonces))
            for driver in world.drivers
        ]
    )
    log = world.log if isinstance(world.log, Decided) else _unmarked(world.log, nonces)
    return world._replace(log=log, before=_marked(world.before, nonces), drivers=drivers)


def plannings_of(world: World) -> set[Planning]:
    """Return all plannings that are contained in records."""
    decided = [each.decided for each in world.drivers]
    states = (world.log, world.before, *decided, *_known(world))
    return {
        each for state in states if isinstance(state, Decided | Done) for each in state.plannings
    }


def _without_dead_plannings(world: World) -> World:
    """Drop the plannings of runs that have no driver."""
    runs = {each.run for each in world.drivers}
    if all(each.run in runs for each in plannings_of(world)):
        return world
    drivers = tuple(
        [
            driver._replace(
                seen=_of_runs(driver.seen, runs),
                first=_of_runs(driver.first, runs),
                decided=_of_runs(driver.decided, runs),
            )
            for driver in world.drivers
        ]
    )
    log, before = _of_runs(world.log, runs), _of_runs(world.before, runs)
    return world._replace(log=log, before=before, drivers=drivers)


def _of_runs(state: T, runs: set[str]) -> T:
    if not isinstance(state, Decided | Done):
        return state
    return replace(state, plannings=tuple(e for e in state.plannings if e.run in runs))


def _known(world: World) -> Iterator[State | None]:
    for driver in world.drivers:
        yield from (driver.seen, driver.first)


def _marked(state: State | None, nonces: set[str]) -> State | None:
    return state if state is None or isinstance(state, Decided) else _unmarked(state, nonces)


def _unmarked(state: Nothing | Done, nonces: set[str]) -> Nothing | Done:
    return replace(state, given_up=tuple(sorted(nonces.intersection(state.given_up))))
