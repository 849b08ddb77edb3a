"""Start of a micro-batch: Spark's commit log determines it, and the log is read unfenced."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.protocol import finished, next_planning_step
from tools.model.context import reads
from tools.model.normal import plannings_of
from tools.model.world import Driver, Pc, with_driver

if TYPE_CHECKING:
    from tools.model.context import Context, Successors
    from tools.model.world import World


def start(context: Context, world: World, index: int) -> Successors:
    """Start the query at the batch after Spark's commit log, even while another driver runs."""
    runner = context.scenario.runners[index]
    batch = world.spark[runner.checkpoint]
    if batch == context.scenario.batches:
        return [
            (
                "finds all batches in Spark's commit log",
                with_driver(world, index, Driver(Pc.FINISHED)),
            )
        ]
    driver = Driver(Pc.PLAN_READ, batch=batch)
    if context.scenario.function:
        driver = driver._replace(run=_unused(f"r{index + 1}", _known_runs(world)))
    return [(f"is started with batch {batch}", with_driver(world, index, driver))]


def read(context: Context, world: World, index: int) -> Successors:
    """Read the log to its end."""
    driver = world.drivers[index]
    successors: Successors = []
    for how, log, after in reads(world):
        step = next_planning_step(log)
        if step is not None:
            finishing = driver._replace(pc=Pc.PLAN_END, decided=step.decided)
            planned = with_driver(after, index, finishing)
        else:
            planned = _tasks(after, index, driver._replace(seen=log))
        successors.append((f"planning reads the log{how}", planned))
    return successors


def end(context: Context, world: World, index: int) -> Successors:
    """Commit the decided transactions."""
    driver = world.drivers[index]
    if driver.decided is None:
        raise ValueError("nothing is decided")
    world, torn = context.roll_forward(world, driver.decided.transactions)
    if torn is not None and not context.scenario.runners[index].reset:
        return [(f"planning stops at {torn}", with_driver(world, index, Driver(Pc.TORN)))]
    driver = driver._replace(seen=finished(driver.decided))
    return [("planning commits what is decided", _tasks(world, index, driver))]


def _tasks(world: World, index: int, driver: Driver) -> World:
    """Start the tasks with a nonce that no transaction uses."""
    used = {each.nonce for each, _ in world.transactions}
    used.update(each.nonce for each in world.zombies)
    used.update(each.nonce for each in world.drivers)
    used.update(each.nonce for each in plannings_of(world))
    nonce = _unused(f"d{index + 1}", used)
    driver = driver._replace(pc=Pc.TASKS, nonce=nonce, decided=None)
    return with_driver(world, index, driver)


def _known_runs(world: World) -> set[str]:
    live = {each.run for each in world.drivers}
    return live | {each.run for each in plannings_of(world)}


def _unused(who: str, used: set[str]) -> str:
    """Return the first unused nonce of a driver."""
    return next(name for name in (f"{who}.{each}" for each in count()) if name not in used)
