"""Who writes, the kinds of fault, and what is done at a step; `recipes` puts them together."""

from __future__ import annotations

from enum import StrEnum


class Sink(StrEnum):
    """Who writes the stream."""

    SPARK = "kafka"
    """Spark's own `format("kafka")`."""
    AT_LEAST_ONCE = "kafkaprod"
    EXACTLY_ONCE = "exactly-once"
    """A transaction for each task."""
    ATOMIC = "atomic"
    """Exactly once with atomicBatch=true: one transaction for the batch."""


ONCE = frozenset({Sink.EXACTLY_ONCE, Sink.ATOMIC})
OURS = ONCE | {Sink.AT_LEAST_ONCE}
SEVERAL = frozenset({Sink.EXACTLY_ONCE})
"""A batch has several transactions, and a decision apart from their ends."""
SHARED = frozenset({Sink.ATOMIC})


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
    SLEEP = "sleep"
    """SIGSTOP for a task's process, so that another attempt is made beside it; SIGCONT when the
    batch is decided."""
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


KILL_DRIVERS = frozenset({Deed.KILL_DRIVER, Deed.KILL_DRIVERS, Deed.KILL_JVM})
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
    TASK_WAKES_AFTER_PLANNING = "task paused, woken after the next planning"
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
