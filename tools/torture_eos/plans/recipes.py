"""How a run of each kind is drawn: at which steps, what is done, and on what cluster."""

from __future__ import annotations

from dataclasses import dataclass

from tools.torture_eos.plans.kinds import ONCE, OURS, SEVERAL, SHARED, Deed, Kind, Sink
from tools.torture_eos.plans.steps import (
    COMMIT,
    DECIDING,
    EXACTLY_ONCE,
    LOG,
    OPENING,
    PLANNING,
    SEVERAL_ONLY,
    SHARED_ONLY,
    TASK,
    Step,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a driver is started with: runs of one profile may share it, one after the other.

    `executors`: on a cluster of two executors, else in the driver's process. `lone_workers`: Python
    workers outlive their executor. `hosts`: each executor has an address of its own, so that Spark
    may run a slow task a second time.
    """

    executors: bool = False
    lone_workers: bool = False
    hosts: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a run of a kind is drawn; the steps that a sink doesn't have are left out.

    `seconds`: how long a pause lasts, at least and at most. `profile`: what drivers are started
    with. `shuffled`: the tasks that write read what others have left with the executors. `slow`:
    the batch of the fault takes some seconds, so that the fault comes amid it. `timeout_ms`:
    transaction.timeout.ms. `until`: steps at one of which the deed ends. `job`: a batch job with a
    batchId. `often`: how many runs of all.
    """

    steps: tuple[Step, ...]
    deed: Deed
    sinks: frozenset[Sink] = frozenset(Sink)
    nodes: tuple[int, ...] = (1, 3)
    seconds: tuple[float, float] = (0.0, 0.0)
    profile: Profile = Profile()
    shuffled: bool = False
    slow: bool = False
    timeout_ms: int | None = None
    until: tuple[Step, ...] = ()
    job: bool = False
    often: int = 2


_TASK = (*TASK, *OPENING)
_COMMIT = (*COMMIT, *PLANNING, *DECIDING)
_ANY = (*LOG, *_TASK, *_COMMIT)
_TIMEOUT_MS, _SHARED_TIMEOUT_MS = 60_000, 12_000
_EXECUTORS = Profile(executors=True)
_LONE_WORKERS = Profile(executors=True, lone_workers=True)

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
        steps=_ANY, deed=Deed.KILL_EXECUTOR, profile=_EXECUTORS, slow=True, often=1
    ),
    Kind.STAGE_RETRIED: Recipe(
        # With something in the topic for the attempt that is lost.
        steps=(Step.LOG_HALF, Step.TASK_APPENDED, Step.TASK_FLUSHED, Step.TASK_ENDED),
        deed=Deed.KILL_EXECUTOR,
        profile=_EXECUTORS,
        shuffled=True,
        slow=True,
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
        steps=(Step.END_TXN,), deed=Deed.KILL_DRIVER, sinks=SEVERAL, often=3
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
        profile=_LONE_WORKERS,
        until=(Step.APPENDED,),
    ),
    Kind.TASK_WAKES_AFTER_PLANNING: Recipe(
        steps=(*OPENING, Step.TASK_BEGUN, Step.TASK_APPENDED, Step.TASK_FLUSHED),
        deed=Deed.WAKE_LATE,
        sinks=SHARED,
        profile=_LONE_WORKERS,
        until=(*PLANNING, Step.CHECKED),
    ),
    Kind.TIMEOUT_BEFORE_DECISION: Recipe(
        steps=(Step.TASK_FLUSHED, Step.TASK_ENDED, *COMMIT[:1], Step.FENCING, Step.LOG_READ),
        deed=Deed.OUTLAST,
        sinks=ONCE,
        timeout_ms=_TIMEOUT_MS,
    ),
    Kind.TIMEOUT_BEFORE_END: Recipe(
        steps=(Step.CHECKED, Step.APPENDING, Step.APPENDED_UNCOMMITTED, Step.END_TXN),
        deed=Deed.OUTLAST,
        sinks=SHARED,
        timeout_ms=_SHARED_TIMEOUT_MS,
    ),
    Kind.TORN: Recipe(
        steps=(Step.APPENDED, Step.END_TXN),
        deed=Deed.OUTLAST,
        sinks=SEVERAL,
        timeout_ms=_TIMEOUT_MS,
    ),
    Kind.TORN_BY_OTHERS: Recipe(
        steps=(Step.APPENDED, Step.END_TXN), deed=Deed.FENCE_TASKS, sinks=SEVERAL, often=1
    ),
    Kind.DRIVERS_INTERLEAVED: Recipe(
        steps=DECIDING,
        deed=Deed.START_SECOND,
        sinks=ONCE,
        until=(*PLANNING, *DECIDING[1:], Step.COMMIT_ENDED),
        often=4,
    ),
    Kind.OTHER_CHECKPOINT: Recipe(steps=(), deed=Deed.NOTHING, sinks=ONCE),
    Kind.SPECULATION: Recipe(
        steps=(Step.TASK_OPENED, Step.TASK_APPENDED, Step.TASK_FLUSHED),
        deed=Deed.SLEEP,
        sinks=SEVERAL,
        profile=Profile(hosts=True),
        until=(Step.APPENDED,),
        often=1,
    ),
    Kind.JOB_WORKER_KILLED: Recipe(
        steps=_TASK, deed=Deed.KILL_PROCESS, sinks=ONCE, job=True, often=1
    ),
    Kind.JOB_COMMIT_RAISES: Recipe(steps=_COMMIT, deed=Deed.RAISE, sinks=ONCE, job=True, often=1),
    Kind.JOB_DRIVER_KILLED: Recipe(
        steps=(*_TASK, *_COMMIT, Step.END_TXN), deed=Deed.KILL_DRIVER, sinks=ONCE, job=True
    ),
    Kind.JOB_TWICE: Recipe(
        steps=(*_TASK, *_COMMIT), deed=Deed.SECOND_DRIVER, sinks=ONCE, job=True, often=1
    ),
}

TEARING = frozenset({Kind.TORN, Kind.TORN_BY_OTHERS})
"""What may end with a torn batch; nothing else may."""


_NEVER: dict[Sink, frozenset[Step]] = {
    Sink.SPARK: frozenset(Step) - LOG,
    Sink.AT_LEAST_ONCE: EXACTLY_ONCE,
    Sink.EXACTLY_ONCE: SHARED_ONLY,
    Sink.ATOMIC: SEVERAL_ONLY,
}
"""The steps that a sink does not come to."""


def steps_of(recipe: Recipe, sink: Sink) -> tuple[Step, ...]:
    """The steps at which the sink can be met."""
    return tuple(step for step in recipe.steps if step not in _NEVER[sink])


def ends_of(recipe: Recipe, sink: Sink) -> tuple[Step, ...]:
    """The steps of the sink at which the deed ends."""
    return tuple(step for step in recipe.until if step not in _NEVER[sink])
