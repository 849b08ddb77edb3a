"""Steps of commit() on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome
from spark_kafka_sink.exactly_once.protocol import (
    AlreadyDone,
    Decide,
    Refuse,
    RollForward,
    finished,
    takes_over,
)
from tools.model import broker
from tools.model.context import reads, stopped
from tools.model.world import Driver, Pc, Status, with_driver, with_log

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.protocol import Decided
    from tools.model.context import Context, Successors
    from tools.model.world import Transaction, World


def first(context: Context, world: World, index: int) -> Successors:
    """InitProducerId for the scope's transactional ID."""
    if context.rules.fence_first:
        return [_fence(world, index, Pc.COMMIT_SECOND)]
    return _read(world, index, Pc.COMMIT_SECOND)


def second(context: Context, world: World, index: int) -> Successors:
    """Read the log and choose the next step."""
    if context.rules.fence_first:
        found = _read(world, index, Pc.COMMIT_SECOND)
    else:
        found = [_fence(world, index, Pc.COMMIT_SECOND)]
    return [(label, _ask(context, after, index)) for label, after in found]


def append(context: Context, world: World, index: int) -> Successors:
    """Append the decision with the epoch of the fence."""
    driver = world.drivers[index]
    decided = driver.decided
    if decided is None:
        raise ValueError("nothing is decided")
    if not context.may_append(world, index):
        return [("the append is fenced", _fenced(context, world, index))]
    if context.rules.check and not _all_open(context, world, driver.ours):
        return [("a transaction is not open any more", _fenced(context, world, index))]
    again = _again(driver)
    if context.is_stale(world, index):
        return [("the log has another end than before", with_driver(world, index, again))]
    record = decided if decided.transactions else finished(decided)
    appended = with_log(world, record)
    successors = [("the decision is appended", _next(context, appended, index))]
    if world.budget.unclear:
        left = world.budget._replace(unclear=world.budget.unclear - 1)
        for label, unclear in (("appended", appended), ("lost", world)):
            retried = with_driver(unclear._replace(budget=left), index, again)
            successors.append((f"the decision is {label}, without an answer", retried))
    return successors


def roll_forward(context: Context, world: World, index: int) -> Successors:
    """Commit the decision that was found, regardless of which driver made it."""
    driver = world.drivers[index]
    if driver.decided is None:
        raise ValueError("nothing is decided")
    world, torn = context.roll_forward(world, driver.decided.transactions)
    if torn is not None and not takes_over(driver.decided, context.caller(world, index)):
        return [(f"commit() stops at {torn}", with_driver(world, index, Driver(Pc.TORN)))]
    driver = driver._replace(pc=Pc.DONE)
    return [("commit() commits what was decided", with_driver(world, index, driver))]


def end(context: Context, world: World, index: int) -> Successors:
    """Commit one transaction of the driver's own decision."""
    if not world.drivers[index].todo:
        return [("nothing is to be committed", _next(context, world, index))]
    ended = world.drivers[index].todo[0].name
    world, outcome = context.end_next(world, index)
    driver = world.drivers[index]
    label = f"EndTxn(commit) of {ended}: {outcome.name}"
    if outcome is not EndOutcome.COMMITTED:
        return [(label, with_driver(world, index, Driver(Pc.TORN)))]
    return [(label, world if driver.todo else _next(context, world, index))]


def done(context: Context, world: World, index: int) -> Successors:
    """Append the done record; after a decision that was found, continue with the own batch."""
    driver = world.drivers[index]
    if driver.decided is None:
        raise ValueError("nothing is decided")
    if not context.may_append(world, index):
        fenced = _fenced(context, world, index) if driver.rolling else raised(world, index)
        return [("the append of done is fenced", fenced)]
    if context.is_stale(world, index):
        return [("the log has another end than before", raised(world, index))]
    state = finished(driver.decided)
    world = with_log(world, state)
    driver = driver._replace(first=None)
    if driver.rolling:
        driver = driver._replace(seen=state, decided=None, rolling=False)
        return [("done is appended", _ask(context, with_driver(world, index, driver), index))]
    driver = driver._replace(pc=Pc.LIST, seen=state, decided=None)
    return [("done is appended", with_driver(world, index, driver))]


def found(context: Context, world: World, index: int) -> Successors:
    """Append a record that this run has found the batch already written."""
    driver = world.drivers[index]
    if driver.seen is None:
        raise ValueError("the log has been read")
    if not context.may_append(world, index):
        return [("the append of what was found is fenced", _fenced(context, world, index))]
    again = with_driver(world, index, _again(driver))
    if context.is_stale(world, index):
        return [("the log has another end than before", again)]
    appended = with_log(world, driver.seen)
    listing = with_driver(appended, index, driver._replace(pc=Pc.LIST, first=None))
    successors = [("that the batch was found is appended", listing)]
    if world.budget.unclear:
        left = world.budget._replace(unclear=world.budget.unclear - 1)
        for label, unclear in (("appended", appended), ("lost", world)):
            retried = with_driver(unclear._replace(budget=left), index, _again(driver))
            successors.append((f"what was found is {label}, without an answer", retried))
    return successors


def list_orphans(context: Context, world: World, index: int) -> Successors:
    """Call ListTransactions."""
    driver = world.drivers[index]
    todo = context.orphans(world, index, given_up=True)
    pc = Pc.SWEEP if todo else Pc.SPARK_LOG
    driver = driver._replace(pc=pc, todo=todo, seen=None, messages=(), first=None, unclear=False)
    return [("orphans are listed", with_driver(world, index, driver))]


def sweep(context: Context, world: World, index: int) -> Successors:
    """Call EndTxn(abort) for the listed transactions."""
    driver = world.drivers[index]
    world = broker.abort(world, driver.todo)
    label = f"aborts {_names(driver.todo)}"
    driver = driver._replace(pc=Pc.SPARK_LOG, todo=())
    return [(label, with_driver(world, index, driver))]


def spark_log(context: Context, world: World, index: int) -> Successors:
    """Write Spark's commit log, which rejects a batch that it already contains."""
    driver = world.drivers[index]
    if driver.ghost:
        return [
            ("nobody hears that commit() has ended", with_driver(world, index, stopped(driver)))
        ]
    checkpoint = context.scenario.runners[index].checkpoint
    batch, function = driver.batch, context.scenario.function
    if function and batch + 1 < context.scenario.batches:
        again = Driver(Pc.PLAN_READ, batch=batch + 1, run=driver.run)
        return [("the function writes again", with_driver(world, index, again))]
    if world.spark[checkpoint] != (0 if function else batch):
        failed = with_driver(world, index, stopped(driver))
        return [("another driver is in Spark's commit log already", failed)]
    spark = list(world.spark)
    spark[checkpoint] = batch + 1
    world = world._replace(spark=tuple(spark))
    last = batch + 1 == context.scenario.batches
    driver = Driver(Pc.FINISHED) if last else Driver(Pc.PLAN_READ, batch=batch + 1)
    return [(f"Spark commits batch {batch}", with_driver(world, index, driver))]


def raised(world: World, index: int) -> World:
    """Let commit() raise: Spark calls abort() with the same messages."""
    driver = world.drivers[index]
    if driver.ghost:
        return with_driver(world, index, stopped(driver))
    kept = Driver(
        Pc.RAISED,
        batch=driver.batch,
        nonce=driver.nonce,
        run=driver.run,
        messages=driver.messages,
        complete=True,
    )
    return with_driver(world, index, kept)


def _fenced(context: Context, world: World, index: int) -> World:
    """Let commit() fail, having decided nothing: it aborts what it would have decided.

    The product's `never_decided` excludes decisions of earlier calls for the same tasks; here there
    are none.
    """
    driver = world.drivers[index]
    if not (driver.unclear and context.rules.minds_unclear):
        world = broker.abort(world, driver.ours)
    return raised(world, index)


def _ask(context: Context, world: World, index: int) -> World:
    driver = world.drivers[index]
    if driver.seen is None:
        raise ValueError("the log has been read")
    step = context.rules.commit_step(driver.seen, context.caller(world, index), driver.ours)
    if isinstance(step, Refuse):
        return _fenced(context, world, index)
    if isinstance(step, RollForward):
        return with_driver(world, index, _carry_out(driver, step.decided, Pc.ROLL))
    if isinstance(step, Decide):
        if context.rules.check and not _all_open(context, world, driver.ours):
            return _fenced(context, world, index)
        pc = context.rules.deciding[0]
        return with_driver(world, index, _carry_out(driver, step.decided, pc))
    if isinstance(step, AlreadyDone) and step.found is not None:
        return with_driver(world, index, driver._replace(pc=Pc.FOUND, seen=step.found))
    return with_driver(world, index, driver._replace(pc=Pc.LIST))


def _again(driver: Driver) -> Driver:
    """Restart the steps of a driver that does not know whether its append succeeded."""
    return Driver(
        Pc.COMMIT_FIRST,
        batch=driver.batch,
        nonce=driver.nonce,
        run=driver.run,
        messages=driver.messages,
        complete=driver.complete,
        unclear=True,
        ghost=driver.ghost,
    )


def _all_open(context: Context, world: World, ours: tuple[Transaction, ...]) -> bool:
    """Call DescribeTransactions; reading the log in the same step does not change its result."""
    good = broker.UNFINISHED if context.rules.commits_empty else {Status.OPEN}
    return all(broker.status_of(world, each) in good for each in ours)


def _carry_out(driver: Driver, decided: Decided[Transaction], pc: Pc) -> Driver:
    rolling = pc is Pc.ROLL
    todo = () if rolling else decided.transactions
    return driver._replace(pc=pc, decided=decided, todo=todo, rolling=rolling, seen=None)


def _next(context: Context, world: World, index: int) -> World:
    """Return the step after the one that has succeeded."""
    driver = world.drivers[index]
    order = context.rules.deciding
    pc = order[order.index(driver.pc) + 1]
    first = None if driver.pc is Pc.APPEND else driver.first
    return with_driver(world, index, driver._replace(pc=pc, first=first))


def _fence(world: World, index: int, pc: Pc) -> tuple[str, World]:
    driver = world.drivers[index]._replace(pc=pc)
    fenced = with_driver(world._replace(holder=index), index, driver)
    return "fences with InitProducerId", fenced


def _read(world: World, index: int, pc: Pc) -> Successors:
    found = []
    for how, log, after in reads(world):
        first = log if log != world.log else None
        driver = after.drivers[index]._replace(pc=pc, seen=log, first=first)
        label = f"reads the log{how}, and checks its transactions"
        found.append((label, with_driver(after, index, driver)))
    return found


def _names(transactions: tuple[Transaction, ...]) -> str:
    return ", ".join(each.name for each in transactions) or "nothing"
