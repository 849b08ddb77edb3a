"""The kinds of fault: at which steps, what is done, and on what cluster."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tools.torture_eos.plans.steps import COMMIT, DECIDING, EXACTLY_ONCE, LOG, OPENING, TASK, Step


class Sink(StrEnum):
    """Who writes the stream."""

    SPARK = "kafka"
    """Spark's own `format("kafka")`."""
    AT_LEAST_ONCE = "kafkaprod"
    EXACTLY_ONCE = "exactly-once"


OURS = frozenset({Sink.AT_LEAST_ONCE, Sink.EXACTLY_ONCE})
ONCE = frozenset({Sink.EXACTLY_ONCE})


class Deed(StrEnum):
    """What is done once a step is reached."""

    KILL_PROCESS = "kill-process"
    """SIGKILL for the Python process that has reached the step."""
    PAUSE_PROCESS = "pause-process"
    """SIGSTOP for it, and SIGCONT after a while."""
    KILL_DRIVER = "kill-driver"
    """SIGKILL for the driver and everything that it has started."""
    KILL_DRIVERS = "kill-drivers"
    """SIGKILL for all drivers that run."""
    KILL_JVM = "kill-jvm"
    """SIGKILL for the driver alone; its Python processes find out by themselves."""
    PAUSE_DRIVER = "pause-driver"
    """SIGSTOP for the driver's processes; another takes the checkpoint over, then SIGCONT."""
    SECOND_DRIVER = "second-driver"
    """Another driver starts on the same checkpoint."""
    STOP_QUERY = "stop-query"
    """`query.stop()`, then a start."""
    KILL_EXECUTOR = "kill-executor"
    KILL_BROKER = "kill-broker"
    """SIGKILL, and a start after a while."""
    PAUSE_BROKER = "pause-broker"
    CUT_NETWORK = "cut-network"
    """No connection to one broker for a while."""
    RAISE = "raise"
    """The step raises."""
    MOVE_COORDINATORS = "move-coordinators"
    """Other brokers lead the transactions' log."""
    WAKE_LATE = "wake-late"
    """SIGSTOP for a task's process, and SIGKILL for its executor, so that another attempt is made;
    SIGCONT when the batch is decided."""
    OUTLAST = "outlast"
    """The step lasts longer than transaction.timeout.ms."""
    WAKE = "wake"
    """SIGCONT for who was to wake late."""
    START_SECOND = "start-second"
    """Another driver starts on the checkpoint, and this step lasts until that one is at its own."""
    LET_FIRST_GO = "let-first-go"
    """The first driver goes on, and after a while the second."""
    TAKE_TURNS = "take-turns"
    """The other driver goes on, and this step lasts until that one is at its own."""
    FENCE_TASKS = "fence-tasks"
    """A foreign producer takes over the transactional ids of the batch's tasks."""
    NOTHING = "nothing"


TWO_DRIVERS = frozenset({Deed.PAUSE_DRIVER, Deed.SECOND_DRIVER, Deed.START_SECOND})


class Kind(StrEnum):
    """A row of the table of results."""

    NONE = "no fault"
    WORKER_KILLED = "worker killed"
    WORKER_PAUSED = "worker paused"
    COMMIT_KILLED = "commit process killed"
    COMMIT_RAISES = "commit() raises"
    DRIVER_KILLED = "driver killed"
    DRIVER_KILLED_AFTER_COMMIT = "driver killed before Spark's commit log"
    DRIVER_ALONE_KILLED = "driver killed, its workers not"
    DRIVER_REPLACED = "driver paused and replaced"
    TWO_DRIVERS = "two drivers on one checkpoint"
    QUERY_STOPPED = "query stopped"
    EXECUTOR_KILLED = "executor killed"
    STAGE_RETRIED = "stage retried"
    BROKER_KILLED = "broker killed"
    BROKER_PAUSED = "broker paused"
    NETWORK_CUT = "network cut"
    DRIVER_KILLED_DECIDING = "driver killed around the decision"
    DRIVER_KILLED_ENDING = "driver killed between two EndTxns"
    BROKER_KILLED_ENDING = "broker killed during EndTxns"
    NETWORK_CUT_ENDING = "network cut during EndTxns"
    COORDINATOR_MOVED = "coordinators moved"
    TASK_WAKES_LATE = "task paused, woken after the decision"
    TIMEOUT_BEFORE_DECISION = "timeout before the decision"
    TORN = "timeout between decision and EndTxn"
    TORN_BY_OTHERS = "transactions taken over after the decision"
    DRIVERS_INTERLEAVED = "two drivers, step by step"
    OTHER_CHECKPOINT = "new checkpoint under an old prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a run of a kind is drawn; the steps that a sink doesn't have are left out.

    `seconds`: how long a pause lasts, at least and at most. `executors`: on a cluster of two
    executors, else in the driver's process. `lone_workers`: Python workers outlive their executor.
    `shuffled`: the tasks that write read what others have left with the executors. `slow`: the
    batch of the fault takes some seconds, so that the fault comes amid it. `timeout_ms`:
    transaction.timeout.ms. `until`: steps at one of which the deed ends. `often`: how many runs of
    all.
    """

    steps: tuple[Step, ...]
    deed: Deed
    sinks: frozenset[Sink] = frozenset(Sink)
    nodes: tuple[int, ...] = (1, 3)
    seconds: tuple[float, float] = (0.0, 0.0)
    executors: bool = False
    shuffled: bool = False
    lone_workers: bool = False
    slow: bool = False
    timeout_ms: int | None = None
    until: tuple[Step, ...] = ()
    often: int = 2


_TASK = (*TASK, *OPENING)
_COMMIT = (*COMMIT, *DECIDING)
_ANY = (*LOG, *_TASK, *_COMMIT)
_TIMEOUT_MS = 12_000

RECIPES: dict[Kind, Recipe] = {
    Kind.NONE: Recipe(steps=(), deed=Deed.NOTHING, often=1),
    Kind.WORKER_KILLED: Recipe(steps=_TASK, deed=Deed.KILL_PROCESS, sinks=OURS, often=3),
    Kind.WORKER_PAUSED: Recipe(
        steps=_TASK, deed=Deed.PAUSE_PROCESS, sinks=OURS, seconds=(0.5, 3.0), often=1
    ),
    Kind.COMMIT_KILLED: Recipe(steps=_COMMIT, deed=Deed.KILL_PROCESS, sinks=OURS, often=3),
    Kind.COMMIT_RAISES: Recipe(steps=_COMMIT, deed=Deed.RAISE, sinks=OURS),
    Kind.DRIVER_KILLED: Recipe(steps=_ANY, deed=Deed.KILL_DRIVER, slow=True, often=4),
    Kind.DRIVER_KILLED_AFTER_COMMIT: Recipe(
        steps=(Step.COMMIT_ENDED,), deed=Deed.KILL_DRIVER, sinks=OURS
    ),
    Kind.DRIVER_ALONE_KILLED: Recipe(steps=(*_TASK, *_COMMIT), deed=Deed.KILL_JVM, sinks=OURS),
    Kind.DRIVER_REPLACED: Recipe(steps=_ANY, deed=Deed.PAUSE_DRIVER, slow=True),
    Kind.TWO_DRIVERS: Recipe(steps=_ANY, deed=Deed.SECOND_DRIVER, slow=True),
    Kind.QUERY_STOPPED: Recipe(steps=_ANY, deed=Deed.STOP_QUERY, slow=True),
    Kind.EXECUTOR_KILLED: Recipe(
        steps=_ANY, deed=Deed.KILL_EXECUTOR, executors=True, slow=True, often=1
    ),
    Kind.STAGE_RETRIED: Recipe(
        steps=(*LOG, *_TASK), deed=Deed.KILL_EXECUTOR, executors=True, shuffled=True, slow=True
    ),
    Kind.BROKER_KILLED: Recipe(
        steps=_ANY, deed=Deed.KILL_BROKER, seconds=(0.0, 3.0), slow=True, often=3
    ),
    Kind.BROKER_PAUSED: Recipe(
        steps=_ANY, deed=Deed.PAUSE_BROKER, seconds=(1.0, 4.0), slow=True, often=1
    ),
    Kind.NETWORK_CUT: Recipe(
        steps=_ANY, deed=Deed.CUT_NETWORK, seconds=(0.5, 4.0), slow=True, often=1
    ),
    Kind.DRIVER_KILLED_DECIDING: Recipe(steps=DECIDING, deed=Deed.KILL_DRIVER, sinks=ONCE, often=4),
    Kind.DRIVER_KILLED_ENDING: Recipe(
        steps=(Step.END_TXN,), deed=Deed.KILL_DRIVER, sinks=ONCE, often=3
    ),
    Kind.BROKER_KILLED_ENDING: Recipe(
        steps=(Step.END_TXN,), deed=Deed.KILL_BROKER, sinks=ONCE, seconds=(0.0, 3.0)
    ),
    Kind.NETWORK_CUT_ENDING: Recipe(
        steps=(Step.END_TXN,), deed=Deed.CUT_NETWORK, sinks=ONCE, seconds=(0.5, 4.0)
    ),
    Kind.COORDINATOR_MOVED: Recipe(
        steps=(Step.TASK_OPENED, Step.TASK_FLUSHED, *DECIDING, Step.END_TXN),
        deed=Deed.MOVE_COORDINATORS,
        sinks=ONCE,
        nodes=(3,),
    ),
    Kind.TASK_WAKES_LATE: Recipe(
        steps=(Step.TASK_BEGUN, Step.TASK_OPENING, Step.TASK_OPENED, Step.TASK_APPENDED),
        deed=Deed.WAKE_LATE,
        sinks=ONCE,
        executors=True,
        lone_workers=True,
        until=(Step.APPENDED,),
    ),
    Kind.TIMEOUT_BEFORE_DECISION: Recipe(
        steps=(Step.TASK_FLUSHED, Step.TASK_ENDED, *COMMIT[:1], Step.FENCING, Step.LOG_READ),
        deed=Deed.OUTLAST,
        sinks=ONCE,
        timeout_ms=_TIMEOUT_MS,
    ),
    Kind.TORN: Recipe(
        steps=(Step.APPENDED, Step.END_TXN), deed=Deed.OUTLAST, sinks=ONCE, timeout_ms=_TIMEOUT_MS
    ),
    Kind.TORN_BY_OTHERS: Recipe(
        steps=(Step.APPENDED, Step.END_TXN), deed=Deed.FENCE_TASKS, sinks=ONCE, often=1
    ),
    Kind.DRIVERS_INTERLEAVED: Recipe(
        steps=DECIDING,
        deed=Deed.START_SECOND,
        sinks=ONCE,
        until=(*DECIDING[1:], Step.COMMIT_ENDED),
        often=4,
    ),
    Kind.OTHER_CHECKPOINT: Recipe(steps=(), deed=Deed.NOTHING, sinks=ONCE),
}

TEARING = frozenset({Kind.TORN, Kind.TORN_BY_OTHERS})
"""What may end with a torn batch; nothing else may."""


def steps_of(recipe: Recipe, sink: Sink) -> tuple[Step, ...]:
    """The steps at which the sink can be met."""
    if sink is Sink.SPARK:
        return tuple(step for step in recipe.steps if step in LOG)
    if sink is Sink.AT_LEAST_ONCE:
        return tuple(step for step in recipe.steps if step not in EXACTLY_ONCE)
    return recipe.steps
