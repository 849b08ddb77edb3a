"""The steps of the actors (a driver's planning, its tasks, commit() and abort()), and the faults.

Each task has at most two attempts, of which one returns. Both tasks run in a single step, because
the order of their writes is not observable. A lost attempt represents an attempt that failed, lost
to a speculative attempt, or was part of a retried stage. It can still write at any later time.
"""

from collections.abc import Callable, Iterator
from itertools import count, product

from spark_kafka_sink.exactly_once.commit_outcome import EndOutcome
from spark_kafka_sink.exactly_once.decision_rules import (
    AlreadyDone,
    BatchVerdict,
    Decide,
    GiveUp,
    RejectBatch,
    RollForward,
    next_planning_step,
    replaces_query,
)
from tools.model.model_state import (
    ENDED,
    UNFINISHED,
    Driver,
    Pc,
    State,
    Status,
    Transaction,
    World,
    normalised,
)
from tools.model.scenario import TASKS
from tools.model.turn import Context, Turn

Successors = list[tuple[str, Turn]]
"""List of (description of a step, turn after the step)."""
_STALE = "the end of the log has changed"
_COMMIT = frozenset(
    (Pc.COMMIT_FIRST, Pc.COMMIT_SECOND, Pc.APPEND, Pc.ROLL, Pc.END, Pc.DONE, Pc.FOUND, Pc.LIST)
) | {Pc.SWEEP}
_IDLE = ENDED | {Pc.DOWN}
"""Driver steps at which a crash has no effect."""


# Planning, at the start of a micro-batch.


def start(turn: Turn) -> Successors:
    """Start the query at the next batch after Spark's commit log; other drivers can be running."""
    scenario, world = turn.context.scenario, turn.world
    batch = world.spark[scenario.runners[turn.number].checkpoint]
    if batch == scenario.batches:
        return [("finds all batches in Spark's commit log", turn.put(Driver(Pc.FINISHED)))]
    driver = Driver(Pc.PLAN_READ, batch=batch)
    if scenario.function:
        runs = {driver.run for driver in world.drivers} | {
            planning.run_id for planning in world.plannings
        }
        driver = driver._replace(run=_unused_nonce(f"r{turn.number + 1}", runs))
    return [(f"is started with batch {batch}", turn.put(driver))]


def plan_read(turn: Turn) -> Successors:
    """Read the log to its end."""
    successors: Successors = []
    for how, log, after in turn.reads():
        step = next_planning_step(log)
        if step is not None:
            planned = after.now(pc=Pc.PLAN_END, decided=step.decided)
        else:
            planned = _start_tasks(after.now(seen=log))
        successors.append((f"planning reads the log{how}", planned))
    return successors


def plan_end(turn: Turn) -> Successors:
    """Commit the decided transactions."""
    decided = turn.decided
    turn, torn = turn.roll_forward()
    if torn is not None and not turn.context.scenario.runners[turn.number].reset:
        return [(f"planning stops at {torn}", turn.put(Driver(Pc.TORN)))]
    started = _start_tasks(turn.now(seen=decided.to_done()))
    return [("planning commits the decided transactions", started)]


def _start_tasks(turn: Turn) -> Turn:
    """Start the tasks with an unused nonce."""
    world = turn.world
    used = {transaction.nonce for transaction, _ in world.transactions}
    for known in (world.lost_attempts, world.drivers, world.plannings):
        used.update(message.nonce for message in known)
    return turn.now(pc=Pc.TASKS, nonce=_unused_nonce(f"d{turn.number + 1}", used), decided=None)


def _unused_nonce(who: str, used: set[str]) -> str:
    """Return the first unused nonce of a driver."""
    return next(name for name in (f"{who}.{number}" for number in count()) if name not in used)


# The tasks.


def run_tasks(turn: Turn) -> Successors:
    """Run all tasks, which check the batch and then write it, skip it, or fail."""
    verdict = turn.context.rules.batch_verdict(turn.seen, turn.batch_write)
    if verdict is BatchVerdict.SKIP:
        return [("the tasks skip the batch", _tasks_returned(turn, (None,) * TASKS))]
    if verdict is not BatchVerdict.WRITE:
        rejected = turn.now(pc=Pc.RAISED, complete=False, seen=None)
        return [(f"the tasks reject the batch: {verdict}", rejected)]
    may_lose = [min(left, turn.has_rows(task)) for task, left in enumerate(turn.world.budget.lost)]
    choices = product(*[(False, True)[: 1 + loses] for loses in may_lose])
    successors = [_write_tasks(turn, lost) for lost in choices]
    if turn.world.budget.failures:
        after = turn.spend(failures=1)
        attempt = turn.attempt(0, 0)
        after = after.on(after.world.begin(attempt, Status.OPEN))
        after = after.now(pc=Pc.RAISED, complete=False, seen=None, messages=(attempt,))
        successors.append(("task 0 writes, task 1 fails permanently", after))
    return successors


def _write_tasks(turn: Turn, lost: tuple[bool, ...]) -> tuple[str, Turn]:
    world = turn.world
    messages: list[Transaction | None] = []
    lost_attempts, budget = list(world.lost_attempts), list(world.budget.lost)
    for partition in range(TASKS):
        if lost[partition]:
            budget[partition] -= 1
            lost_attempts.append(turn.attempt(partition, 0))
        attempt, rows = turn.attempt(partition, int(lost[partition])), turn.has_rows(partition)
        opens = rows or turn.context.rules.commits_empty
        if opens:
            world = world.begin(attempt, Status.OPEN if rows else Status.EMPTY)
        messages.append(attempt if opens else None)
    world = world._replace(
        lost_attempts=tuple(sorted(lost_attempts)), budget=world.budget._replace(lost=tuple(budget))
    )
    retried = "".join(f", task {task} in its second attempt" for task in range(TASKS) if lost[task])
    return f"the tasks write{retried}", _tasks_returned(turn.on(world), tuple(messages))


def _tasks_returned(turn: Turn, messages: tuple[Transaction | None, ...]) -> Turn:
    return turn.now(pc=Pc.COMMIT_FIRST, complete=True, seen=None, messages=messages)


# commit(), on the driver.


def commit_first(turn: Turn) -> Successors:
    """Call InitProducerId for the scope's transactional id."""
    return [_fence(turn)] if turn.context.rules.fence_first else _read_log(turn)


def commit_second(turn: Turn) -> Successors:
    """Read the log and choose the next step."""
    successors = _read_log(turn) if turn.context.rules.fence_first else [_fence(turn)]
    return [(label, _ask_commit(after)) for label, after in successors]


def append(turn: Turn) -> Successors:
    """Append the decision with the epoch from InitProducerId."""
    record = turn.decided if turn.decided.transactions else turn.decided.to_done()
    if not turn.may_append:
        return [("the append is fenced", _fail_undecided(turn))]
    if turn.context.rules.check and not _all_open(turn):
        return [("a transaction is no longer open", _fail_undecided(turn))]
    if turn.is_stale:
        return [(_STALE, _restart_commit(turn))]
    return [
        ("the decision is appended", _advance(turn.append(record))),
        *_without_response(turn, "the decision", record),
    ]


def found(turn: Turn) -> Successors:
    """Append a record that this run of the query has found the batch already written."""
    if not turn.may_append:
        return [("the append of the found record is fenced", _fail_undecided(turn))]
    if turn.is_stale:
        return [(_STALE, _restart_commit(turn))]
    listing = turn.append(turn.seen).now(pc=Pc.LIST, first=None)
    return [
        ("the found record is appended", listing),
        *_without_response(turn, "what was found", turn.seen),
    ]


def _without_response(turn: Turn, what: str, record: State) -> Successors:
    """Return the cases in which an append has no response: the record is appended or lost."""
    if not turn.world.budget.unclear:
        return []
    after = turn.spend(unclear=1)
    return [
        (
            f"{what} is appended, but the response is lost",
            _restart_commit(turn.append(record).spend(unclear=1)),
        ),
        (f"{what} is lost, without a response", _restart_commit(after)),
    ]


def roll_forward(turn: Turn) -> Successors:
    """Commit the transactions of the decision that was found, even if it is another driver's."""
    taken_over = replaces_query(turn.decided, turn.batch_write)
    turn, torn = turn.roll_forward()
    if torn is not None and not taken_over:
        return [(f"commit() stops at {torn}", turn.put(Driver(Pc.TORN)))]
    return [("commit() commits the decided transactions", turn.now(pc=Pc.DONE))]


def end(turn: Turn) -> Successors:
    """Commit the next transaction of the driver's own decision."""
    if not turn.driver.todo:
        return [("no transactions to commit", _advance(turn))]
    first, *rest = turn.driver.todo
    turn, outcome = turn.commit(first)
    label = f"EndTxn(commit) of {first.name}: {outcome.name}"
    if outcome is not EndOutcome.COMMITTED:
        return [(label, turn.put(Driver(Pc.TORN)))]
    turn = turn.now(todo=tuple(rest))
    return [(label, turn if rest else _advance(turn))]


def done(turn: Turn) -> Successors:
    """Append the done record. If the decision was found in the log, continue with the own batch."""
    rolling = turn.driver.rolling
    if not turn.may_append:
        return [
            (
                "the append of the done record is fenced",
                _fail_undecided(turn) if rolling else raised(turn),
            )
        ]
    if turn.is_stale:
        return [(_STALE, raised(turn))]
    state = turn.decided.to_done()
    after = turn.append(state).now(first=None, seen=state, decided=None, rolling=False)
    return [
        ("the done record is appended", _ask_commit(after) if rolling else after.now(pc=Pc.LIST))
    ]


def list_orphans(turn: Turn) -> Successors:
    """Call ListTransactions."""
    todo = turn.orphans()
    pc = Pc.SWEEP if todo else Pc.SPARK_LOG
    after = turn.now(pc=pc, todo=todo, seen=None, messages=(), first=None, unclear=False)
    return [("orphans are listed", after)]


def sweep(turn: Turn) -> Successors:
    """Call EndTxn(abort) for the listed transactions."""
    todo = turn.driver.todo
    names = ", ".join(transaction.name for transaction in todo)
    return [(f"aborts {names}", turn.abort(todo).now(pc=Pc.SPARK_LOG, todo=()))]


def spark_log(turn: Turn) -> Successors:
    """Add the batch to Spark's commit log, which fails if the log already contains it."""
    scenario, driver, spark = turn.context.scenario, turn.driver, list(turn.world.spark)
    if driver.interrupted:
        return [("the result of commit() is lost", turn.stop())]
    batch, last = driver.batch, driver.batch + 1 == scenario.batches
    if scenario.function and not last:
        again = Driver(Pc.PLAN_READ, batch=batch + 1, run=driver.run)
        return [("the function writes again", turn.put(again))]
    checkpoint = scenario.runners[turn.number].checkpoint
    if spark[checkpoint] != (0 if scenario.function else batch):
        return [("another driver is already in Spark's commit log", turn.stop())]
    spark[checkpoint] = batch + 1
    driver = Driver(Pc.FINISHED) if last else Driver(Pc.PLAN_READ, batch=batch + 1)
    committed = turn.on(turn.world._replace(spark=tuple(spark))).put(driver)
    return [(f"Spark commits batch {batch}", committed)]


def raised(turn: Turn) -> Turn:
    """Let commit() raise, after which Spark calls abort() with the same messages."""
    if turn.driver.interrupted:
        return turn.stop()
    return turn.put(turn.driver.reset(Pc.RAISED)._replace(complete=True))


def _fail_undecided(turn: Turn) -> Turn:
    """Let commit() fail without a decision.

    It aborts the transactions of its tasks, unless one of its appends had no response. The
    product's `never_decided` also considers earlier calls for the same tasks, which the model does
    not have.
    """
    keeps = turn.driver.unclear and turn.context.rules.keeps_unclear
    return raised(turn if keeps else turn.abort(turn.driver.ours))


def _ask_commit(turn: Turn) -> Turn:
    rules = turn.context.rules
    match rules.commit_step(turn.seen, turn.batch_write, turn.driver.ours):
        case RejectBatch():
            return _fail_undecided(turn)
        case RollForward(decided=decided):
            return turn.now(pc=Pc.ROLL, decided=decided, todo=(), rolling=True, seen=None)
        case Decide(decided=decided):
            if rules.check and not _all_open(turn):
                return _fail_undecided(turn)
            todo = decided.transactions
            pc = rules.deciding[0]
            return turn.now(pc=pc, decided=decided, todo=todo, rolling=False, seen=None)
        case AlreadyDone(done=done) if done is not None:
            return turn.now(pc=Pc.FOUND, seen=done)
    return turn.now(pc=Pc.LIST)


def _restart_commit(turn: Turn) -> Turn:
    """Restart commit() after an append without a response, or if the log has changed."""
    return turn.put(turn.driver.reset(Pc.COMMIT_FIRST)._replace(unclear=True))


def _all_open(turn: Turn) -> bool:
    """Return True if DescribeTransactions reports all transactions as open.

    The log is read in the same step, which does not affect the result.
    """
    good = UNFINISHED if turn.context.rules.commits_empty else {Status.OPEN}
    return all(turn.world.status_of(transaction) in good for transaction in turn.driver.ours)


def _advance(turn: Turn) -> Turn:
    """Advance the driver to its next step after a successful step."""
    order, driver = turn.context.rules.deciding, turn.driver
    first = None if driver.pc is Pc.APPEND else driver.first
    return turn.now(pc=order[order.index(driver.pc) + 1], first=first)


def _fence(turn: Turn) -> tuple[str, Turn]:
    fenced = turn.on(turn.world._replace(holder=turn.number)).now(pc=Pc.COMMIT_SECOND)
    return "fences with InitProducerId", fenced


def _read_log(turn: Turn) -> Successors:
    return [
        (
            f"reads the log{how}, and checks its transactions",
            after.now(pc=Pc.COMMIT_SECOND, seen=log, first=_outdated_log(after, log)),
        )
        for how, log, after in turn.reads()
    ]


def _outdated_log(turn: Turn, log: State) -> State | None:
    return log if log != turn.world.log else None


# abort(), which Spark calls after a task fails permanently or commit() raises.


def abort(turn: Turn) -> Successors:
    """Call InitProducerId for the scope's transactional id if a decision might be in progress."""
    driver, world = turn.driver, turn.world
    if not (turn.context.rules.abort_reads and driver.complete):
        return [("Spark calls abort()", turn.now(pc=Pc.ABORT_TASKS))]
    if not any(world.status_of(transaction) in UNFINISHED for transaction in driver.ours):
        return [("Spark calls abort(), with nothing open", turn.now(pc=Pc.ABORT_LOOK))]
    fenced = turn.on(world._replace(holder=turn.number)).now(pc=Pc.ABORT_READ)
    return [("Spark calls abort(), which fences", fenced)]


def abort_look(turn: Turn) -> Successors:
    """Read the log without fencing."""
    successors: Successors = []
    for how, log, after in turn.reads():
        step = next_planning_step(log)
        stopped = Driver(Pc.ABORT_FINISH, decided=step.decided) if step else None
        done = after.put(stopped) if stopped else after.stop()
        successors.append((f"abort() reads the log{how}; the query fails", done))
    return successors


def abort_finish(turn: Turn) -> Successors:
    """Commit the decided transactions without appending a record."""
    return _commit_decided(turn, Turn.stop, "; the query fails")


def abort_read(turn: Turn) -> Successors:
    """Read the log and choose the next step."""
    return [
        (
            f"abort() reads the log{how}",
            _ask_abort(after.now(seen=log, first=_outdated_log(after, log))),
        )
        for how, log, after in turn.reads()
    ]


def abort_end(turn: Turn) -> Successors:
    """Commit the decided transactions."""
    return _commit_decided(turn, lambda after: after.now(pc=Pc.ABORT_DONE))


def _commit_decided(turn: Turn, then: Callable[[Turn], Turn], how: str = "") -> Successors:
    turn, torn = turn.roll_forward()
    if torn is not None:
        return [(f"abort() stops at {torn}", turn.put(Driver(Pc.TORN)))]
    return [(f"abort() commits the decided transactions{how}", then(turn))]


def abort_done(turn: Turn) -> Successors:
    """Append the done record, unless another driver has fenced this driver."""
    return _append_in_abort(turn, "abort() appends the done record", turn.decided.to_done())


def give_up(turn: Turn) -> Successors:
    """Append a record that makes a running commit() fail."""
    return _append_in_abort(
        turn, "abort() appends a record that it has given up the tasks", turn.seen
    )


def _append_in_abort(turn: Turn, label: str, record: State) -> Successors:
    if not turn.may_append or turn.is_stale:
        return [("abort() is fenced, or the end of the log has changed", turn.stop())]
    return [(label, _ask_abort(turn.append(record).now(seen=record, first=None)))]


def abort_ours(turn: Turn) -> Successors:
    """Abort the transactions that are not part of a decision; the query has failed."""
    driver = turn.driver
    kept = () if driver.decided is None else driver.decided.transactions
    aborted = turn.abort(transaction for transaction in driver.ours if transaction not in kept)
    return [("abort() aborts the transactions of its tasks; the query fails", aborted.stop())]


STEPS: dict[Pc, Callable[[Turn], Successors]] = {
    Pc.DOWN: start,
    Pc.PLAN_READ: plan_read,
    Pc.PLAN_END: plan_end,
    Pc.TASKS: run_tasks,
    Pc.COMMIT_FIRST: commit_first,
    Pc.COMMIT_SECOND: commit_second,
    Pc.APPEND: append,
    Pc.ROLL: roll_forward,
    Pc.END: end,
    Pc.DONE: done,
    Pc.FOUND: found,
    Pc.LIST: list_orphans,
    Pc.SWEEP: sweep,
    Pc.SPARK_LOG: spark_log,
    Pc.RAISED: abort,
    Pc.ABORT_LOOK: abort_look,
    Pc.ABORT_FINISH: abort_finish,
    Pc.ABORT_READ: abort_read,
    Pc.ABORT_END: abort_end,
    Pc.ABORT_DONE: abort_done,
    Pc.GIVE_UP: give_up,
    Pc.ABORT_TASKS: abort_ours,
}
"""Functions that execute a driver's next step. Drivers in final states have no next step."""


def _ask_abort(turn: Turn) -> Turn:
    match turn.context.rules.abort_step(turn.seen, turn.batch_write):
        case RollForward(decided=decided):
            return turn.now(pc=Pc.ABORT_END, decided=decided, seen=None)
        case GiveUp(state=state):
            return turn.now(pc=Pc.GIVE_UP, seen=state)
    return turn.now(pc=Pc.ABORT_TASKS, seen=None)


def successors(context: Context, world: World) -> Iterator[tuple[str, str, World]]:
    """Yield (actor, event, next world) for each step or fault that is possible in a world."""
    turns = [Turn(context, world, index) for index in range(len(world.drivers))]
    for turn in turns:
        step = STEPS.get(turn.driver.pc)
        if step is not None:
            for what, after in step(turn):
                yield turn.name, what, normalised(after.world)
    for who, what, after in _faults(turns):
        yield who, what, normalised(after.world)


def _faults(turns: list[Turn]) -> Iterator[tuple[str, str, Turn]]:
    """Yield the faults and delayed events that occur independently of a driver's steps."""
    any_turn, world = turns[0], turns[0].world
    for attempt in sorted(set(world.lost_attempts)):
        left = list(world.lost_attempts)
        left.remove(attempt)
        woken = world._replace(lost_attempts=tuple(left)).begin(attempt, Status.OPEN)
        yield "lost attempt", f"wakes up and writes {attempt.name}", any_turn.on(woken)
    for open_transaction, status in world.transactions:
        if world.budget.timeouts and status is Status.OPEN:
            after = any_turn.spend(timeouts=1)
            after = after.on(after.world.time_out(open_transaction))
            yield "coordinator", f"aborts {open_transaction.name} at its timeout", after
    for turn in turns:
        pc = turn.driver.pc
        if world.budget.crashes[turn.number] and pc not in _IDLE:
            crashes = list(world.budget.crashes)
            crashes[turn.number] -= 1
            left_over = world.budget._replace(crashes=tuple(crashes))
            after = turn.on(world._replace(budget=left_over))
            yield turn.name, "dies", after.stop()
            if pc in _COMMIT:
                yield turn.name, "loses the process that runs commit()", raised(after)
        if world.budget.interrupts and turn.number == 0 and pc in _COMMIT:
            what = "is interrupted in commit(), which continues as driver 2"
            yield turn.name, what, _interrupt(turn)


def _interrupt(turn: Turn) -> Turn:
    """Let commit() raise in Spark, but continue as a separate driver."""
    turn = turn.spend(interrupts=1)
    if turn.world.holder == 0:
        turn = turn.on(turn.world._replace(holder=1))
    interrupted = turn.driver._replace(interrupted=True)
    return raised(turn._replace(number=1).put(interrupted)._replace(number=0))
