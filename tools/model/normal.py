"""Worlds that nobody can tell apart become the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.model.broker import awaited
from tools.model.world import Pc

if TYPE_CHECKING:
    from tools.model.world import World

_IN_EPOCH = frozenset(
    {
        Pc.COMMIT_FIRST,
        Pc.COMMIT_SECOND,
        Pc.APPEND,
        Pc.ROLL,
        Pc.END,
        Pc.DONE,
        Pc.ABORT_READ,
        Pc.ABORT_END,
        Pc.ABORT_DONE,
    }
)
"""Where a driver may still append in the epoch that it has."""


def normalised(world: World) -> World:
    """Without an epoch that is not used any more, and without transactions that nobody awaits.

    What stands in no message and in no decision can't be decided any more. It holds back readers
    until it is aborted, and changes nothing else.
    """
    if world.holder is not None and world.drivers[world.holder].pc not in _IN_EPOCH:
        world = world._replace(holder=None)
    known = awaited(world)
    if len(known) >= len(world.transactions):
        return world
    kept = tuple([(each, status) for each, status in world.transactions if each in known])
    return world._replace(transactions=kept)
