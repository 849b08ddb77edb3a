"""The steps at which a run can stop, the actions, and the kinds of faults."""

from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

_TIMEOUT_MS, _SHARED_TIMEOUT_MS = 60_000, 12_000


class Step(StrEnum):
    """A step in the processing of a micro-batch.

    The harness detects the steps in `LOG` by polling the topic, and `END_TXN` at a proxy. All other
    steps are reached by a Python process, which waits until the harness releases it.
    """

    LOG_HALF = "log.half"
    """About half of a batch's records are in the topic."""
    LOG_FULL = "log.full"
    """All of a batch's records are in the topic."""

    BEGINNING = "plan.beginning"
    """Before a driver's InitProducerId for a scope; during planning, for the shared transaction."""
    BEGUN = "plan.begun"
    """After InitProducerId, before the fenced read of the decision log."""
    PLANNED = "plan.writer"
    """The writer of a micro-batch has been created, but its tasks have not started."""
    TASK_BEGUN = "task.begun"
    TASK_APPENDED = "task.appended"
    """Between two Arrow batches of a task."""
    TASK_FLUSHED = "task.flushed"
    """After the last acknowledgement of a task."""
    TASK_ENDED = "task.ended"
    """Before the task returns its commit message."""
    COMMIT_BEGUN = "commit.begun"
    COMMIT_ENDED = "commit.ended"
    """Before Spark writes its commit log."""

    TASK_OPENING = "task.opening"
    """Before InitProducerId for a task's transaction."""
    TASK_OPENED = "task.opened"
    """After InitProducerId or the claim of a shared transaction, before the first record."""
    TASK_CLAIMED = "task.claimed"
    """After a task without rows has claimed its part of the shared transaction."""
    FENCING = "driver.fencing"
    """Before InitProducerId for the driver's transactional id."""
    FENCED = "driver.fenced"
    LOG_READ = "driver.log-read"
    CHECKED = "driver.checked"
    """After the check that the leaders have all records of the shared transaction."""
    APPENDING = "driver.appending"
    """Before an append to the decision log: the decision (unless tasks share a transaction), and
    the done record."""
    APPENDED = "driver.appended"
    APPENDED_UNCOMMITTED = "driver.appended-uncommitted"
    """After an append to the decision log, while its transaction is still open."""
    ENDING = "driver.ending"
    """Before EndTxn of the tasks' transactions."""
    END_TXN = "net.end-txn"
    """The commit of a task's transaction or of the shared transaction has reached a proxy."""

    ABORT_BEGUN = "abort.begun"
    ABORT_ENDED = "abort.ended"


LOG = frozenset({Step.LOG_HALF, Step.LOG_FULL})
TASK = (Step.TASK_BEGUN, Step.TASK_APPENDED, Step.TASK_FLUSHED, Step.TASK_ENDED)
COMMIT = (Step.COMMIT_BEGUN, Step.COMMIT_ENDED)
OPENING = (Step.TASK_OPENING, Step.TASK_OPENED, Step.TASK_CLAIMED)
PLANNING = (Step.BEGINNING, Step.BEGUN)
DECIDING = (
    Step.FENCING,
    Step.FENCED,
    Step.LOG_READ,
    Step.CHECKED,
    Step.APPENDING,
    Step.APPENDED_UNCOMMITTED,
    Step.APPENDED,
    Step.ENDING,
)
EXACTLY_ONCE = frozenset({*PLANNING, *OPENING, *DECIDING, Step.END_TXN})
"""Steps that occur only in sinks with transactions."""
SHARED_ONLY = frozenset({*PLANNING, Step.TASK_CLAIMED, Step.CHECKED})
"""Steps that occur only if tasks share a transaction."""
SEVERAL_ONLY = frozenset({Step.FENCING, Step.FENCED, Step.ENDING})
"""Commit steps that occur only if each task has a transaction."""
UNNUMBERED = frozenset({*PLANNING, Step.PLANNED})
"""Steps at which the number of the micro-batch is unknown."""
TWICE = frozenset(
    {Step.TASK_APPENDED, Step.APPENDING, Step.APPENDED_UNCOMMITTED, Step.APPENDED, Step.END_TXN}
)
"""Steps that occur at least twice in a task or a commit."""


_TASK = (*TASK, *OPENING)
_COMMIT = (*COMMIT, *PLANNING, *DECIDING)
_ANY = (*LOG, *_TASK, *_COMMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The `hit`th time that a process reaches `step` in a micro-batch (any if `batch` is None).

    Hits are counted separately for each task attempt or commit. `after` is the number of a stop of
    the plan that must be reached first.
    """

    step: Step
    batch: int | None
    hit: int = 1
    after: int | None = None

    def __str__(self) -> str:
        hit = f" #{self.hit}" if self.step in TWICE else ""
        return f"{self.step}{hit}"


class Sink(StrEnum):
    """The sink that writes the stream."""

    SPARK = "kafka"
    """Spark's own `format("kafka")`."""
    AT_LEAST_ONCE = "kafkaprod"
    EXACTLY_ONCE = "exactly-once"
    """One transaction per task."""
    ATOMIC = "atomic"
    """Exactly once with atomicBatch=true: one shared transaction per batch."""


ONCE = frozenset({Sink.EXACTLY_ONCE, Sink.ATOMIC})
OURS = ONCE | {Sink.AT_LEAST_ONCE}
SEVERAL = frozenset({Sink.EXACTLY_ONCE})
"""Sinks with several transactions per batch, for which a decision record is needed."""
SHARED = frozenset({Sink.ATOMIC})
_NEVER: dict[Sink, frozenset[Step]] = {
    Sink.SPARK: frozenset(Step) - LOG,
    Sink.AT_LEAST_ONCE: EXACTLY_ONCE,
    Sink.EXACTLY_ONCE: SHARED_ONLY,
    Sink.ATOMIC: SEVERAL_ONLY,
}
"""Steps that a sink does not reach."""


class Action(StrEnum):
    """An action that runs when a step is reached."""

    KILL_PROCESS = "kill-process"
    """SIGKILL for the Python process that has reached the step."""
    PAUSE_PROCESS = "pause-process"
    """SIGSTOP for the process that has reached the step, and SIGCONT after a pause."""
    KILL_DRIVER = "kill-driver"
    """SIGKILL for the driver and all of its child processes."""
    KILL_JVM = "kill-jvm"
    """SIGKILL for the driver and its JVM, but not for its Python workers."""
    PAUSE_DRIVER = "pause-driver"
    """SIGSTOP for the driver's processes; SIGCONT after a second driver has taken over."""
    SECOND_DRIVER = "second-driver"
    """Start a second driver with the same checkpoint."""
    STOP_QUERY = "stop-query"
    """Call `query.stop()`, then start the query again."""
    KILL_EXECUTOR = "kill-executor"
    KILL_BROKER = "kill-broker"
    """SIGKILL for a broker, which is restarted after a pause."""
    PAUSE_BROKER = "pause-broker"
    CUT_NETWORK = "cut-network"
    """Cut the connections through a broker's proxy for some time."""
    RAISE = "raise"
    """Make the step raise an exception."""
    MOVE_COORDINATORS = "move-coordinators"
    """Move the leaders of the transaction log to other brokers."""
    WAKE_LATE = "wake-late"
    """SIGSTOP for a task's process and SIGKILL for its executor, so that the task is retried.

    SIGCONT follows after the batch is decided.
    """
    EXCEED_TIMEOUT = "exceed-timeout"
    """Delay the step for longer than transaction.timeout.ms."""
    SLEEP = "sleep"
    """SIGSTOP for a task's process, so that a speculative attempt starts.

    SIGCONT follows after the batch is decided.
    """
    WAKE = "wake"
    """SIGCONT for the processes that `WAKE_LATE` or `SLEEP` has stopped."""
    START_SECOND = "start-second"
    """Start a second driver, and delay this step until the second driver reaches its step."""
    RELEASE_FIRST = "release-first"
    """Release the first driver and, after a pause, the second driver."""
    FENCE_TASKS = "fence-tasks"
    """A separate producer takes over the transactional ids of the batch's tasks."""
    NOTHING = "nothing"


class Kind(StrEnum):
    """A kind of fault, which is a row in the table of results."""

    NONE = "no fault"
    WORKER_KILLED = "worker killed"
    WORKER_PAUSED = "worker paused"
    COMMIT_KILLED = "commit process killed"
    COMMIT_RAISES = "commit() raises"
    DRIVER_KILLED = "driver killed"
    DRIVER_KILLED_AFTER_COMMIT = "driver killed before Spark's commit log"
    DRIVER_ALONE_KILLED = "driver killed, workers left running"
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
    TASK_WAKES_LATE = "task paused, resumed after the decision"
    TASK_WAKES_AFTER_PLANNING = "task paused, resumed after the next planning"
    TIMEOUT_BEFORE_DECISION = "timeout before the decision"
    TIMEOUT_BEFORE_END = "timeout before the one EndTxn"
    TORN = "timeout between decision and EndTxn"
    TORN_BY_OTHERS = "transactions taken over after the decision"
    DRIVERS_INTERLEAVED = "two drivers, step by step"
    OTHER_CHECKPOINT = "new checkpoint under an old prefix"
    SPECULATION = "slow task, run twice"
    JOB_WORKER_KILLED = "batch job: worker killed"
    JOB_COMMIT_RAISES = "batch job: commit() raises"
    JOB_DRIVER_KILLED = "batch job: driver killed"
    JOB_TWICE = "batch job: two at once"


TEARING = frozenset({Kind.TORN, Kind.TORN_BY_OTHERS})
"""The kinds of faults that are allowed to cause a torn batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Settings of a driver.

    `executors` is True for a cluster of two executors, and False to run tasks in the driver's
    process. With `lone_workers`, Python workers outlive their executor. With `hosts`, each executor
    has its own address, which is necessary for speculative execution.
    """

    executors: bool = False
    lone_workers: bool = False
    hosts: bool = False


_EXECUTORS = Profile(executors=True)
_LONE_WORKERS = Profile(executors=True, lone_workers=True)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Parameters of the runs of a kind; steps that a sink does not reach are omitted.

    `seconds` is the minimum and maximum duration of a pause. `profile` contains the settings of the
    drivers. With `shuffled`, the writing tasks read shuffle files of other executors. With `slow`,
    the batch of the fault takes several seconds, so that the fault occurs during the batch.
    `timeout_ms` is transaction.timeout.ms. `until` contains the steps at which the action can end.
    `job` is True for a batch job with a batchId. `often` is the weight of the scenario.
    """

    steps: tuple[Step, ...]
    action: Action
    sinks: frozenset[Sink] = frozenset(Sink)
    _: KW_ONLY
    nodes: tuple[int, ...] = (1, 3)
    seconds: tuple[float, float] = (0.0, 0.0)
    profile: Profile = Profile()
    shuffled: bool = False
    slow: bool = False
    timeout_ms: int | None = None
    until: tuple[Step, ...] = ()
    job: bool = False
    often: int = 2


SCENARIOS: dict[Kind, Scenario] = {
    Kind.NONE: Scenario((), Action.NOTHING, often=1),
    Kind.WORKER_KILLED: Scenario(_TASK, Action.KILL_PROCESS, OURS, often=3),
    Kind.WORKER_PAUSED: Scenario(_TASK, Action.PAUSE_PROCESS, OURS, seconds=(0.5, 3.0), often=1),
    Kind.COMMIT_KILLED: Scenario(_COMMIT, Action.KILL_PROCESS, OURS, often=3),
    Kind.COMMIT_RAISES: Scenario(_COMMIT, Action.RAISE, OURS),
    Kind.DRIVER_KILLED: Scenario(_ANY, Action.KILL_DRIVER, slow=True, often=4),
    Kind.DRIVER_KILLED_AFTER_COMMIT: Scenario((Step.COMMIT_ENDED,), Action.KILL_DRIVER, OURS),
    Kind.DRIVER_ALONE_KILLED: Scenario((*_TASK, *_COMMIT), Action.KILL_JVM, OURS),
    Kind.DRIVER_REPLACED: Scenario(_ANY, Action.PAUSE_DRIVER, slow=True),
    Kind.TWO_DRIVERS: Scenario(_ANY, Action.SECOND_DRIVER, slow=True),
    Kind.QUERY_STOPPED: Scenario(_ANY, Action.STOP_QUERY, seconds=(0.3, 0.3), slow=True),
    Kind.EXECUTOR_KILLED: Scenario(
        _ANY, Action.KILL_EXECUTOR, profile=_EXECUTORS, slow=True, often=1
    ),
    Kind.STAGE_RETRIED: Scenario(
        # At these steps, the lost attempt has already written to the topic.
        (Step.LOG_HALF, Step.TASK_APPENDED, Step.TASK_FLUSHED, Step.TASK_ENDED),
        Action.KILL_EXECUTOR,
        profile=_EXECUTORS,
        shuffled=True,
        slow=True,
    ),
    Kind.BROKER_KILLED: Scenario(_ANY, Action.KILL_BROKER, seconds=(0.0, 3.0), slow=True, often=3),
    Kind.BROKER_PAUSED: Scenario(_ANY, Action.PAUSE_BROKER, seconds=(1.0, 4.0), slow=True, often=1),
    Kind.NETWORK_CUT: Scenario(_ANY, Action.CUT_NETWORK, seconds=(0.5, 4.0), slow=True, often=1),
    Kind.DRIVER_KILLED_DECIDING: Scenario(DECIDING, Action.KILL_DRIVER, ONCE, often=4),
    Kind.DRIVER_KILLED_ENDING: Scenario((Step.END_TXN,), Action.KILL_DRIVER, SEVERAL, often=3),
    Kind.BROKER_KILLED_ENDING: Scenario(
        (Step.END_TXN,), Action.KILL_BROKER, ONCE, seconds=(0.0, 3.0)
    ),
    Kind.NETWORK_CUT_ENDING: Scenario(
        (Step.END_TXN,), Action.CUT_NETWORK, ONCE, seconds=(0.5, 4.0)
    ),
    Kind.COORDINATOR_MOVED: Scenario(
        (Step.TASK_OPENED, Step.TASK_FLUSHED, *DECIDING, Step.END_TXN),
        Action.MOVE_COORDINATORS,
        ONCE,
        nodes=(3,),
    ),
    Kind.TASK_WAKES_LATE: Scenario(
        (Step.TASK_BEGUN, Step.TASK_OPENING, Step.TASK_OPENED, Step.TASK_APPENDED),
        Action.WAKE_LATE,
        ONCE,
        profile=_LONE_WORKERS,
        until=(Step.APPENDED,),
    ),
    Kind.TASK_WAKES_AFTER_PLANNING: Scenario(
        (*OPENING, Step.TASK_BEGUN, Step.TASK_APPENDED, Step.TASK_FLUSHED),
        Action.WAKE_LATE,
        SHARED,
        profile=_LONE_WORKERS,
        until=(*PLANNING, Step.CHECKED),
    ),
    Kind.TIMEOUT_BEFORE_DECISION: Scenario(
        (Step.TASK_FLUSHED, Step.TASK_ENDED, *COMMIT[:1], Step.FENCING, Step.LOG_READ),
        Action.EXCEED_TIMEOUT,
        ONCE,
        timeout_ms=_TIMEOUT_MS,
    ),
    Kind.TIMEOUT_BEFORE_END: Scenario(
        (Step.CHECKED, Step.APPENDING, Step.APPENDED_UNCOMMITTED, Step.END_TXN),
        Action.EXCEED_TIMEOUT,
        SHARED,
        timeout_ms=_SHARED_TIMEOUT_MS,
    ),
    Kind.TORN: Scenario(
        (Step.APPENDED, Step.END_TXN), Action.EXCEED_TIMEOUT, SEVERAL, timeout_ms=_TIMEOUT_MS
    ),
    Kind.TORN_BY_OTHERS: Scenario(
        (Step.APPENDED, Step.END_TXN), Action.FENCE_TASKS, SEVERAL, often=1
    ),
    Kind.DRIVERS_INTERLEAVED: Scenario(
        DECIDING,
        Action.START_SECOND,
        ONCE,
        until=(*PLANNING, *DECIDING[1:], Step.COMMIT_ENDED),
        often=4,
    ),
    Kind.OTHER_CHECKPOINT: Scenario((), Action.NOTHING, ONCE),
    Kind.SPECULATION: Scenario(
        (Step.TASK_OPENED, Step.TASK_APPENDED, Step.TASK_FLUSHED),
        Action.SLEEP,
        SEVERAL,
        profile=Profile(hosts=True),
        until=(Step.APPENDED,),
        often=1,
    ),
    Kind.JOB_WORKER_KILLED: Scenario(_TASK, Action.KILL_PROCESS, ONCE, job=True, often=1),
    Kind.JOB_COMMIT_RAISES: Scenario(_COMMIT, Action.RAISE, ONCE, job=True, often=1),
    Kind.JOB_DRIVER_KILLED: Scenario(
        (*_TASK, *_COMMIT, Step.END_TXN), Action.KILL_DRIVER, ONCE, job=True
    ),
    Kind.JOB_TWICE: Scenario((*_TASK, *_COMMIT), Action.SECOND_DRIVER, ONCE, job=True, often=1),
}


def reachable(steps: tuple[Step, ...], sink: Sink) -> tuple[Step, ...]:
    """Return the steps that a run with this sink can reach."""
    return tuple(step for step in steps if step not in _NEVER[sink])
