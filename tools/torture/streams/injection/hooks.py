"""Hooks for steps, and bugs, which are patched into the sink in every process of a run.

This module is loaded before the sink when a process starts. It therefore imports modules of the
sink only inside functions. The patches for a bug take effect only in runs with this bug.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.torture.streams.scenarios import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    from spark_kafka_sink.exactly_once.decision_rules import BatchWrite

    Function = Callable[..., Any]


_EXACTLY_ONCE = "spark_kafka_sink.exactly_once"
_DECISION_RULES = f"{_EXACTLY_ONCE}.decision_rules"
_ADMIN = "spark_kafka_sink.kafka.admin.transaction_admin"
_PRODUCER_FENCED = 90
_WRITER = "spark_kafka_sink.spark.writers.task_writer"
_DATA_SOURCE = "spark_kafka_sink.spark.writers.data_source_writers"
_SESSION = "spark_kafka_sink.producer.session"
TASK, JOB = "task", "job"
"""Values of `Point.scope` that are not argument names."""
_TRANSACTIONS = "spark_kafka_sink.producer.transactions"
_SCOPE_CLIENT = f"{_EXACTLY_ONCE}.steps.scope_client"
_SCOPE_LOG = f"{_EXACTLY_ONCE}.steps.scope_log"
RUN = "TORTURE_EOS_RUN"
"""Environment variable with the folder of the run."""
BUG = "bug"
"""Name of the file in the folder of the run that contains the run's bug, if any."""
RAISE = "raise"
"""Content of a `stop-N.go` file to make the step fail."""
_POLL_S = 0.005


class Bug(StrEnum):
    """A bug that can be planted into the sink; the model has bugs with the same names."""

    MARKER_NOT_CHECKED = "marker not checked"
    QUERY_NOT_COMPARED = "queryId not compared"
    READ_BEFORE_FENCE = "read before fence"
    ABORT_DOES_NOT_READ = "abort() does not read the log"
    DECIDED_AFTER_END = "decision appended after EndTxn"
    ATTEMPT_LEFT_OUT = "transactional id without the attempt number"
    FENCED_IS_SUCCESS = "PRODUCER_FENCED (90) treated as success"


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch of a function in a module; `make` returns the replacement for the function."""

    module: str
    function: str
    make: Callable[[Function], Function]


def _never_skip(original: Function) -> Function:
    def batch_verdict(state: Any, batch_write: Any) -> Any:
        from spark_kafka_sink.exactly_once.decision_rules import BatchVerdict

        verdict = original(state, batch_write)
        return BatchVerdict.WRITE if verdict is BatchVerdict.SKIP else verdict

    return batch_verdict


def _any_query(original: Function) -> Function:
    def batch_verdict(state: Any, batch_write: BatchWrite) -> Any:
        query_id = getattr(state, "query_id", batch_write.query_id)
        return original(state, replace(batch_write, query_id=query_id))

    return batch_verdict


def _fence_after_reading(original: Function) -> Function:
    def fence(self: Any, *timeout: Any) -> Any:
        if not timeout:
            self.log.read_early = self.log.read()
        return original(self, *timeout)

    return fence


def _read_once(original: Function) -> Function:
    def read(self: Any, **options: Any) -> Any:
        early = getattr(self, "read_early", None)
        return original(self, **options) if early is None else early

    return read


def _always_abort(_: Function) -> Function:
    def next_abort_step(state: Any, batch_write: Any) -> Any:
        from spark_kafka_sink.exactly_once.decision_rules import AbortTasks

        return AbortTasks()

    return next_abort_step


def _abort_all(_: Function) -> Function:
    return lambda _, ours: frozenset(ours)


def _end_first(original: Function) -> Function:
    def decide(call: Any, owner: Any, decided: Any) -> Any:
        from spark_kafka_sink.exactly_once.steps.end_transactions import commit_decision

        if decided.transactions:
            commit_decision(call.scope_client, decided)
        call.scope_client.check_committable = lambda *_: None  # The transactions have ended.
        return original(call, owner, decided)

    return decide


def _no_attempt(original: Function) -> Function:
    return lambda self: original(replace(self, task_attempt_id=0))


def _fenced_is_none(original: Function) -> Function:
    def end(*args: Any, **kwargs: Any) -> dict[str, int]:
        codes = original(*args, **kwargs)
        return {name: 0 if code == _PRODUCER_FENCED else code for name, code in codes.items()}

    return end


PATCHES: dict[Bug, tuple[Patch, ...]] = {
    Bug.MARKER_NOT_CHECKED: (Patch(_DECISION_RULES, "batch_verdict", _never_skip),),
    Bug.QUERY_NOT_COMPARED: (Patch(_DECISION_RULES, "batch_verdict", _any_query),),
    Bug.READ_BEFORE_FENCE: (
        Patch(f"{_EXACTLY_ONCE}.steps.scope_client", "ScopeClient.fence", _fence_after_reading),
        Patch(f"{_EXACTLY_ONCE}.steps.scope_log", "ScopeLog.read", _read_once),
    ),
    Bug.ABORT_DOES_NOT_READ: (
        Patch(_DECISION_RULES, "next_abort_step", _always_abort),
        Patch(_DECISION_RULES, "never_decided", _abort_all),
    ),
    Bug.DECIDED_AFTER_END: (
        Patch(f"{_EXACTLY_ONCE}.steps.commit", "_append_and_commit", _end_first),
    ),
    Bug.ATTEMPT_LEFT_OUT: (
        Patch(f"{_EXACTLY_ONCE}.transactional_id", "TaskTransactionalId.__str__", _no_attempt),
    ),
    Bug.FENCED_IS_SUCCESS: (Patch(_ADMIN, "TransactionAdmin.end", _fenced_is_none),),
}


@dataclass(frozen=True, slots=True)
class Point:
    """A function in a module, and the steps `before` and `after` each call of it.

    `scope` specifies how the micro-batch is identified: by the task, by the name of an argument, or
    not at all (jobs). `detail` is the part of the first argument that is added to the trace.
    """

    module: str
    function: str
    before: Step | None = None
    after: Step | None = None
    scope: str | None = None
    detail: str | None = None


POINTS = (
    Point(
        "spark_kafka_sink.spark.datasource", "KafkaProdDataSource.streamWriter", after=Step.PLANNED
    ),
    Point(_WRITER, "TaskWriter.run", Step.TASK_BEGUN, Step.TASK_ENDED, scope=TASK),
    Point(_SESSION, "ProducerSession.append", after=Step.TASK_APPENDED),
    Point(_SESSION, "ProducerSession.flush", after=Step.TASK_FLUSHED),
    Point(
        _DATA_SOURCE,
        "KafkaProdStreamWriter.commit",
        Step.COMMIT_BEGUN,
        Step.COMMIT_ENDED,
        scope="batchId",
    ),
    Point(
        _DATA_SOURCE,
        "KafkaProdStreamWriter.abort",
        Step.ABORT_BEGUN,
        Step.ABORT_ENDED,
        scope="batchId",
    ),
    Point(
        f"{_TRANSACTIONS}.coordinator_requests",
        "init_producer_id_request",
        before=Step.TASK_OPENING,
    ),
    Point(
        f"{_TRANSACTIONS}.transaction_manager",
        "TransactionManager._handle_init_producer_id",
        after=Step.TASK_OPENED,
        detail="settings.transactional_id",
    ),
    Point(_DATA_SOURCE, "KafkaProdWriter.commit", Step.COMMIT_BEGUN, Step.COMMIT_ENDED, scope=JOB),
    Point(_DATA_SOURCE, "KafkaProdWriter.abort", Step.ABORT_BEGUN, Step.ABORT_ENDED, scope=JOB),
    Point(_ADMIN, "TransactionAdmin.init_producer_id", Step.FENCING, Step.FENCED),
    Point(
        "spark_kafka_sink.kafka.logs.appender",
        "TransactionalAppender._commit",
        before=Step.APPENDED_UNCOMMITTED,
    ),
    Point(_ADMIN, "TransactionAdmin.end", before=Step.ENDING),
    Point(f"{_EXACTLY_ONCE}.steps.shared_commit", "begin_shared", scope=JOB),
    Point(_SCOPE_CLIENT, "ScopeClient.fence", Step.BEGINNING, Step.BEGUN),
    Point(f"{_EXACTLY_ONCE}.shared_transaction", "claim", after=Step.TASK_CLAIMED),
    Point(f"{_EXACTLY_ONCE}.shared_transaction", "check_producers", after=Step.CHECKED),
    Point(_SCOPE_LOG, "ScopeLog.read", after=Step.LOG_READ),
    Point(_SCOPE_LOG, "ScopeLog.append", Step.APPENDING, Step.APPENDED),
)


class StepError(RuntimeError):
    """The harness made this step fail."""


class Reporter:
    """Reports the steps of a process to the harness, in the folder of the run."""

    def __init__(self, run: str) -> None:
        self._run = Path(run)
        self._where: dict[str, Any] = {}
        self._hits: Counter[tuple[Step, str]] = Counter()

    @property
    def bug(self) -> str:
        """The bug of the run, or an empty string."""
        try:
            return (self._run / BUG).read_text(encoding="utf-8")
        except OSError:
            return ""

    @contextmanager
    def scope(
        self, kind: str | None, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Iterator[None]:
        """Associate steps in this context with the task, or with the micro-batch of the call."""
        before = self._where
        if kind is not None:
            self._hits.clear()
        if kind == TASK:
            self._where = _task()
        elif kind == JOB:
            self._where = {}
        elif kind is not None:
            self._where = {"batch": kwargs[kind] if kind in kwargs else args[-1]}
        try:
            yield
        finally:
            self._where = before

    def reached(self, step: Step, detail: str = "") -> None:
        """Add a step to the trace, and wait if the run must stop at this step.

        Raises:
            StepError: the harness makes the step fail.
        """
        run = self._run
        self._hits[step, str(self._where)] += 1
        hit = self._hits[step, str(self._where)]
        trace(run, f"{step} #{hit} {json.dumps(self._where)} {detail}")
        for number, stop in enumerate(_stops(run)):
            if stop["step"] != step or stop["hit"] != hit:
                continue
            if stop["after"] is not None and not at_file(run, stop["after"]).exists():
                continue
            if stop["batch"] in (None, self._where.get("batch")) and _claim(run, number):
                _wait_at_stop(run, number, step)
                return


def go_file(run: Path, number: int) -> Path:
    """Return the path of the file that releases the process at a stop."""
    return run / f"stop-{number}.go"


def at_file(run: Path, number: int) -> Path:
    """Return the path of the file with the ID of the process that has reached a stop."""
    return run / f"stop-{number}.at"


def _task() -> dict[str, Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return {}
    batch = context.getLocalProperty("streaming.sql.batchId")
    return {
        "batch": None if batch is None else int(batch),
        "task": context.partitionId(),
        "attempt": context.taskAttemptId(),
    }


def trace(run: Path, text: str) -> None:
    """Append a line to the trace of the run, which all processes share."""
    line = f"{time.time():.3f} {os.getpid()} {text}\n"
    with suppress(OSError), (run / "trace.log").open("a", encoding="utf-8") as file:
        file.write(line)


def trace_size(run: Path) -> int:
    """Return the size of the trace in bytes. It increases whenever a step is reached."""
    path = run / "trace.log"
    return path.stat().st_size if path.exists() else 0


def _stops(run: Path) -> list[dict[str, Any]]:
    try:
        stops: list[dict[str, Any]] = json.loads((run / "steps.json").read_text(encoding="utf-8"))
    except OSError:
        return []
    return stops


def _claim(run: Path, number: int) -> bool:
    """Return True if this process is the first to reach the stop."""
    part = run / f"stop-{number}.{os.getpid()}"
    part.write_text(str(os.getpid()), encoding="utf-8")
    with suppress(FileExistsError):
        os.link(part, at_file(run, number))
        return True
    return False


def _wait_at_stop(run: Path, number: int, step: Step) -> None:
    trace(run, f"stops at {step}")
    go = go_file(run, number)
    while not go.exists():
        if not run.exists():
            return
        time.sleep(_POLL_S)
    said = go.read_text(encoding="utf-8")
    trace(run, f"continues from {step}{': it fails' if said == RAISE else ''}")
    if said == RAISE:
        raise StepError(f"{step} failed, as requested by the harness")


def install() -> None:
    """Install the hooks if this process is part of a run."""
    if folder := os.environ.get(RUN):
        sys.meta_path.insert(0, _Finder(Reporter(folder)))


class _Finder(MetaPathFinder):
    """Finds modules with the default finder, and patches them after loading."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._patches = [(bug, patch) for bug, patches in PATCHES.items() for patch in patches]
        self._modules = {point.module for point in POINTS}
        self._modules |= {patch.module for _, patch in self._patches}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            self._patch(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _patch(self, module: ModuleType) -> None:
        """Plant the bugs in a module, then wrap its steps."""
        for bug, patch in self._patches:
            if patch.module == module.__name__:
                owner, name, right = _find(module, patch.function)
                setattr(owner, name, _planted(right, patch.make(right), bug, self._reporter))
        for point in POINTS:
            if point.module == module.__name__:
                owner, name, original = _find(module, point.function)
                setattr(owner, name, _stopping(original, point, self._reporter))


def _find(module: ModuleType, function: str) -> tuple[Any, str, Function]:
    """Return the module or class that contains a function, the function's name, and itself."""
    path, _, name = function.rpartition(".")
    owner = attrgetter(path)(module) if path else module
    return owner, name, getattr(owner, name)


def _stopping(original: Function, point: Point, reporter: Reporter) -> Function:
    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        def detail() -> str:
            return "" if point.detail is None else str(attrgetter(point.detail)(args[0]))

        with reporter.scope(point.scope, args, kwargs):
            if point.before is not None:
                reporter.reached(point.before, detail())
            result = original(*args, **kwargs)
            if point.after is not None:
                reporter.reached(point.after, detail())
            return result

    return wrapped


def _planted(right: Function, wrong: Function, bug: Bug, reporter: Reporter) -> Function:
    @functools.wraps(right)
    def either(*args: Any, **kwargs: Any) -> Any:
        return (wrong if reporter.bug == bug else right)(*args, **kwargs)

    return either
