"""Bugs that the harness must find: patches applied to the sink in every process of a run.

The patches are always installed, and take effect only in runs with the bug.

Modules of the sink are imported inside functions, because this module is loaded at the start of
every process, before the sink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]

_EXACTLY_ONCE = "spark_kafka_sink.exactly_once"
_PROTOCOL = f"{_EXACTLY_ONCE}.protocol"
_ADMIN = "spark_kafka_sink.admin.transaction_admin"
_PRODUCER_FENCED = 90


class Bug(StrEnum):
    """A bug of the sink."""

    MARKER_NOT_CHECKED = "marker not checked"
    QUERY_NOT_COMPARED = "queryId not compared"
    READ_BEFORE_FENCE = "read before fence"
    ABORT_DOES_NOT_READ = "abort() that does not read the log"
    DECIDED_AFTER_END = "decision written after EndTxn"
    EPOCH_REUSED = "epoch reused"
    ATTEMPT_LEFT_OUT = "attempt left out of the id"
    FENCED_IS_SUCCESS = "90 taken for success"
    EMPTY_COMMITTED = "empty transactions committed"


@dataclass(frozen=True, slots=True)
class Patch:
    """`make` receives `module`'s `function` and returns its replacement."""

    module: str
    function: str
    make: Callable[[Function], Function]


def _never_skip(original: Function) -> Function:
    def judge(state: Any, caller: Any) -> Any:
        from spark_kafka_sink.exactly_once.protocol import Verdict

        verdict = original(state, caller)
        return Verdict.WRITE if verdict is Verdict.SKIP else verdict

    return judge


def _any_query(original: Function) -> Function:
    def judge(state: Any, caller: Any) -> Any:
        return original(state, replace(caller, query=getattr(state, "query", caller.query)))

    return judge


def _fence_after_reading(original: Function) -> Function:
    def fence(self: Any) -> Any:
        self.read_early = type(self).read(self)
        return original(self)

    return fence


def _read_once(original: Function) -> Function:
    def read(self: Any, **options: Any) -> Any:
        early = getattr(self, "read_early", None)
        return original(self, **options) if early is None else early

    return read


def _always_abort(original: Function) -> Function:
    del original

    def next_abort_step(state: Any, caller: Any) -> Any:
        from spark_kafka_sink.exactly_once.protocol import AbortOurs

        del state, caller
        return AbortOurs()

    return next_abort_step


def _abort_all(original: Function) -> Function:
    del original

    def never_decided(state: Any, ours: Any) -> frozenset[str]:
        del state
        return frozenset(ours)

    return never_decided


def _accept(*_: object) -> None:
    """Accept everything, in place of a check."""


def _end_first(original: Function) -> Function:
    def decide(call: Any, owner: Any, decided: Any) -> Any:
        from spark_kafka_sink.exactly_once.steps.recovery import commit_all

        if decided.transactions:
            commit_all(call.driver, decided)
        call.driver.check_alive = _accept  # they are ended
        return original(call, owner, decided)

    return decide


def _same_epoch(original: Function) -> Function:
    def init_producer_id(
        self: Any, transactional_id: str, timeout_ms: int, deadline: Any, current: Any = None
    ) -> Any:
        from spark_kafka_sink.protocol.transactions import OpenTransaction, TransactionVersion

        found = self.describe([transactional_id], deadline).get(transactional_id)
        if found is None:
            return original(self, transactional_id, timeout_ms, deadline, current)
        return OpenTransaction(
            transactional_id=transactional_id,
            producer_id=found.producer_id,
            epoch=found.epoch,
            version=TransactionVersion.V2,
        )

    return init_producer_id


def _no_attempt(original: Function) -> Function:
    return lambda self: original(replace(self, task_attempt_id=0))


def _fenced_is_none(original: Function) -> Function:
    def end(*args: Any, **kwargs: Any) -> dict[str, int]:
        codes = original(*args, **kwargs)
        return {name: 0 if code == _PRODUCER_FENCED else code for name, code in codes.items()}

    return end


def _open_without_rows(original: Function) -> Function:
    def write(self: Any, batches: Any, query_id: Any, batch: str) -> Any:
        from spark_kafka_sink.admin.blocking_client import borrowed_client
        from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
        from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
        from spark_kafka_sink.spark.writer import task_info

        report, transaction = original(self, batches, query_id, batch)
        if transaction is not None:
            return report, transaction
        settings = self.plan.transaction(query_id, batch, task_info())
        with borrowed_client(self.config.producer) as client:
            opened = TransactionAdmin(client).init_producer_id(
                settings.transactional_id, settings.timeout_ms, client.deadline(30)
            )
            started = client.wall_ms()
        task = TaskTransaction(
            transaction=opened, started_ms=started, timeout_ms=settings.timeout_ms, partitions=()
        )
        return report, task

    return write


PATCHES: dict[Bug, tuple[Patch, ...]] = {
    Bug.MARKER_NOT_CHECKED: (Patch(_PROTOCOL, "judge", _never_skip),),
    Bug.QUERY_NOT_COMPARED: (Patch(_PROTOCOL, "judge", _any_query),),
    Bug.READ_BEFORE_FENCE: (
        Patch(f"{_EXACTLY_ONCE}.steps.driver", "Driver.fence", _fence_after_reading),
        Patch(f"{_EXACTLY_ONCE}.steps.driver", "Driver.read", _read_once),
    ),
    Bug.ABORT_DOES_NOT_READ: (
        Patch(_PROTOCOL, "next_abort_step", _always_abort),
        Patch(_PROTOCOL, "never_decided", _abort_all),
    ),
    Bug.DECIDED_AFTER_END: (Patch(f"{_EXACTLY_ONCE}.steps.commit", "_decide", _end_first),),
    Bug.EPOCH_REUSED: (Patch(_ADMIN, "TransactionAdmin.init_producer_id", _same_epoch),),
    Bug.ATTEMPT_LEFT_OUT: (
        Patch(f"{_EXACTLY_ONCE}.transactional_id", "TaskTransactionalId.__str__", _no_attempt),
    ),
    Bug.FENCED_IS_SUCCESS: (Patch(_ADMIN, "TransactionAdmin.end", _fenced_is_none),),
    Bug.EMPTY_COMMITTED: (
        Patch(
            "spark_kafka_sink.spark.exactly_once_task",
            "TransactionalTaskWriter._write",
            _open_without_rows,
        ),
    ),
}
