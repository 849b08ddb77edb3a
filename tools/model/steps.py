"""Table of the drivers' steps, and the successors of a world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.model.actors import abort, commit, planning, tasks
from tools.model.actors.faults import faults
from tools.model.normal import normalised
from tools.model.world import Pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.model.context import Context, Successors
    from tools.model.world import World

Step = tuple[str, str, "World"]
"""(actor, description, next world)."""


STEPS: dict[Pc, Callable[[Context, World, int], Successors]] = {
    Pc.DOWN: planning.start,
    Pc.PLAN_READ: planning.read,
    Pc.PLAN_END: planning.end,
    Pc.TASKS: tasks.run,
    Pc.COMMIT_FIRST: commit.first,
    Pc.COMMIT_SECOND: commit.second,
    Pc.APPEND: commit.append,
    Pc.ROLL: commit.roll_forward,
    Pc.END: commit.end,
    Pc.DONE: commit.done,
    Pc.FOUND: commit.found,
    Pc.LIST: commit.list_orphans,
    Pc.SWEEP: commit.sweep,
    Pc.SPARK_LOG: commit.spark_log,
    Pc.RAISED: abort.start,
    Pc.ABORT_LOOK: abort.look,
    Pc.ABORT_FINISH: abort.finish,
    Pc.ABORT_READ: abort.read,
    Pc.ABORT_END: abort.end,
    Pc.ABORT_DONE: abort.done,
    Pc.GIVE_UP: abort.give_up,
    Pc.ABORT_OURS: abort.ours,
}
"""Function of a driver's next step, by state; drivers in final states have none."""


def successors(context: Context, world: World) -> Iterator[Step]:
    """Return every step that an actor can take now."""
    for index, driver in enumerate(world.drivers):
        step = STEPS.get(driver.pc)
        if step is not None:
            for what, after in step(context, world, index):
                yield f"driver {index + 1}", what, normalised(after)
    for who, what, after in faults(world):
        yield who, what, normalised(after)
