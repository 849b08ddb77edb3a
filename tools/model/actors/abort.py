"""Steps of abort(), which Spark calls after a task fails permanently or commit() raises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.protocol import (
    Decided,
    GiveUp,
    RollForward,
    abort_needs_fence,
    finished,
    next_planning_step,
)
from tools.model import broker
from tools.model.context import reads, stopped
from tools.model.world import Driver, Pc, with_driver, with_log

if TYPE_CHECKING:
    from tools.model.context import Context, Successors
    from tools.model.world import World


def start(context: Context, world: World, index: int) -> Successors:
    """InitProducerId for the scope's transactional ID, if a decision may be in progress."""
    driver = world.drivers[index]
    if not (context.rules.abort_reads and abort_needs_fence(complete=driver.complete)):
        driver = driver._replace(pc=Pc.ABORT_OURS)
        return [("Spark calls abort()", with_driver(world, index, driver))]
    is_open = any(broker.status_of(world, each) in broker.UNFINISHED for each in driver.ours)
    if not is_open:
        driver = driver._replace(pc=Pc.ABORT_LOOK)
        return [("Spark calls abort(), with nothing open", with_driver(world, index, driver))]
    driver = driver._replace(pc=Pc.ABORT_READ)
    world = with_driver(world._replace(holder=index), index, driver)
    return [("Spark calls abort(), which fences", world)]


def look(context: Context, world: World, index: int) -> Successors:
    """Read the log without fencing."""
    successors: Successors = []
    for how, log, after in reads(world):
        step = next_planning_step(log)
        if step is None:
            done = with_driver(after, index, stopped(after.drivers[index]))
        else:
            driver = Driver(Pc.ABORT_FINISH, decided=step.decided)
            done = with_driver(after, index, driver)
        successors.append((f"abort() reads the log{how}; the query fails", done))
    return successors


def finish(context: Context, world: World, index: int) -> Successors:
    """Commit the decided transactions without appending a record."""
    driver = stopped(world.drivers[index])
    return _commit_decided(context, world, index, driver, "; the query fails")


def read(context: Context, world: World, index: int) -> Successors:
    """Read the log and choose the next step."""
    successors: Successors = []
    for how, log, after in reads(world):
        first = log if log != world.log else None
        driver = after.drivers[index]._replace(seen=log, first=first)
        asked = _ask(context, with_driver(after, index, driver), index)
        successors.append((f"abort() reads the log{how}", asked))
    return successors


def end(context: Context, world: World, index: int) -> Successors:
    """Commit the decided transactions."""
    driver = world.drivers[index]._replace(pc=Pc.ABORT_DONE)
    return _commit_decided(context, world, index, driver)


def _commit_decided(
    context: Context, world: World, index: int, after: Driver, then: str = ""
) -> Successors:
    """Roll forward and continue with `after`."""
    decided = world.drivers[index].decided
    if decided is None:
        raise ValueError("nothing is decided")
    world, torn = context.roll_forward(world, decided.transactions)
    if torn is not None:
        return [(f"abort() stops at {torn}", with_driver(world, index, Driver(Pc.TORN)))]
    return [(f"abort() commits what is decided{then}", with_driver(world, index, after))]


def done(context: Context, world: World, index: int) -> Successors:
    """Append the done record, unless another driver has fenced this one."""
    driver = world.drivers[index]
    if driver.decided is None:
        raise ValueError("nothing is decided")
    if not context.may_append(world, index) or context.is_stale(world, index):
        return [_fenced(world, index)]
    state = finished(driver.decided)
    driver = driver._replace(seen=state, first=None)
    world = with_driver(with_log(world, state), index, driver)
    return [("abort() appends done", _ask(context, world, index))]


def give_up(context: Context, world: World, index: int) -> Successors:
    """Append the record that makes a running commit() fail."""
    driver = world.drivers[index]
    if driver.seen is None or isinstance(driver.seen, Decided):
        raise ValueError("nothing is given up")
    if not context.may_append(world, index) or context.is_stale(world, index):
        return [_fenced(world, index)]
    world = with_driver(with_log(world, driver.seen), index, driver._replace(first=None))
    return [("abort() appends that the tasks are given up", _ask(context, world, index))]


def ours(context: Context, world: World, index: int) -> Successors:
    """Abort transactions that are in no decision; the query has failed."""
    driver = world.drivers[index]
    kept = () if driver.decided is None else driver.decided.transactions
    world = broker.abort(world, [each for each in driver.ours if each not in kept])
    failed = with_driver(world, index, stopped(driver))
    return [("abort() aborts the transactions of its tasks; the query fails", failed)]


def _ask(context: Context, world: World, index: int) -> World:
    driver = world.drivers[index]
    if driver.seen is None:
        raise ValueError("the log has been read")
    step = context.rules.abort_step(driver.seen, context.caller(world, index))
    if isinstance(step, RollForward):
        driver = driver._replace(pc=Pc.ABORT_END, decided=step.decided, seen=None)
    elif isinstance(step, GiveUp):
        driver = driver._replace(pc=Pc.GIVE_UP, seen=step.state)
    else:
        driver = driver._replace(pc=Pc.ABORT_OURS, seen=None)
    return with_driver(world, index, driver)


def _fenced(world: World, index: int) -> tuple[str, World]:
    label = "abort() is fenced, or the log has another end than before"
    return label, with_driver(world, index, stopped(world.drivers[index]))
