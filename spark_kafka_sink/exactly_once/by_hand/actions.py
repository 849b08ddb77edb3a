"""Ending transactions by hand: what is decided is committed, what is not may be aborted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import (
    KafkaProdError,
    TornTransactionError,
    TransactionError,
)
from spark_kafka_sink.exactly_once.by_hand.overview import Standing
from spark_kafka_sink.exactly_once.log.decision import Fate, Record
from spark_kafka_sink.exactly_once.log_state import Decided, Done
from spark_kafka_sink.exactly_once.steps.finish import commit_all, commit_others
from spark_kafka_sink.exactly_once.steps.roll_forward import APPEND_SECONDS
from spark_kafka_sink.exactly_once.steps.torn import torn_error

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
    from spark_kafka_sink.exactly_once.by_hand.overview import OpenTransactionView
    from spark_kafka_sink.exactly_once.log.decision_records import DecisionRecords
    from spark_kafka_sink.exactly_once.steps.driver import Driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A decided batch whose transactions were committed by hand."""

    scope: str
    batch: str
    transactions: int
    records: int
    lost: int
    """Transactions of a torn batch that are not committed."""


def commit_decided(driver: Driver, records: DecisionRecords) -> list[Finished]:
    """Commit what the decision log has decided under the prefix of the driver's scope.

    Nothing is fenced, and nothing is harmed where a live driver does the same.

    Raises:
        TornTransactionError: rows of a decided batch are lost; the others are committed.
        KafkaProdError: a batch could not be committed; the others are.
    """
    latest = {each: records.latest(each) for each in records.scopes(driver.scope.prefix)}
    open_still = {
        scope: record
        for scope, record in sorted(latest.items(), key=str)
        if record is not None and isinstance(record.state, Decided)
    }
    unknown = {
        scope: record.state
        for scope, record in open_still.items()
        if not record.fates and isinstance(record.state, Decided)
    }
    results = commit_others(driver, unknown, driver.client.deadline(driver.max_block_s))
    finished, errors = [], []
    for scope, record in open_still.items():
        assert isinstance(record.state, Decided)
        result = record.fates or results[scope]
        if isinstance(result, KafkaProdError):
            errors.append(result)
        elif result:
            errors.append(torn_error(scope, record.state, result))
        else:
            finished.append(_finished(str(scope), record, record.state.batch, result))
    if errors:
        raise next((each for each in errors if isinstance(each, TornTransactionError)), errors[0])
    return finished


def accept_loss(driver: Driver) -> Finished:
    """Let a scope go on behind its latest batch, as somebody has seen to its lost rows.

    Either the batch is torn, or it is refused as it comes with other rows than it was written with.
    Drivers of the scope are fenced: none should run.

    Raises:
        TransactionError: the batch of the scope is neither.
    """
    owner = driver.fence()
    record = driver.read_fenced()
    if record is not None and isinstance(record.state, Done) and record.state.rows is not None:
        uncounted = replace(record, state=replace(record.state, rows=None, topics=None))
        driver.append(owner, uncounted, "done", APPEND_SECONDS)
        return _finished(str(driver.scope), uncounted, record.state.batch, ())
    if record is None or not isinstance(record.state, Decided):
        raise TransactionError(f"{driver.scope} has no torn batch")
    fates = record.fates or commit_all(driver, record.state)
    if not fates:
        raise TransactionError(
            f"batch {record.state.batch} of {driver.scope} is not torn: all its transactions are "
            "committed"
        )
    done = Record.done(record.state, driver.client.wall_ms())
    driver.append(owner, done, "done", APPEND_SECONDS)
    return _finished(str(driver.scope), record, record.state.batch, fates)


def abort_chosen(
    admin: TransactionAdmin,
    views: Sequence[OpenTransactionView],
    chosen: Collection[str],
    deadline: float,
    *,
    undecided: bool,
) -> dict[str, int]:
    """Abort open transactions: orphans, or those that are named.

    Args:
        admin: aborts, by taking the transactional id over.
        views: all open transactions under the prefix.
        chosen: ids; all that may be aborted where there are none.
        deadline: in seconds of the client's clock.
        undecided: those too whose batch a driver may still decide; none may run.

    Returns:
        Kafka's error code for each, 0 for those that are aborted.

    Raises:
        TransactionError: one of the chosen is not open, is decided, or may still be.
    """
    allowed = {Standing.ORPHAN} | ({Standing.UNDECIDED} if undecided else set())
    may = {each.transactional_id for each in views if each.standing in allowed}
    standings = {each.transactional_id: each.standing for each in views}
    for name in chosen:
        if name not in standings:
            raise TransactionError(f"{name} is not open")
        if name not in may:
            raise _refusal(name, standings[name])
    return admin.fence(sorted(may & set(chosen) if chosen else may), deadline)


def _refusal(name: str, standing: Standing) -> TransactionError:
    hints = {
        Standing.DECIDED: "To abort it would lose its rows: commit it",
        Standing.UNDECIDED: "A driver that lives may still commit it. Where none does, say so "
        "with --undecided",
        Standing.DRIVER: "It lasts for one append to the decision log, and ends by itself",
    }
    return TransactionError(f"{name} is {standing.value}", hint=hints.get(standing))


def _finished(scope: str, record: Record, batch: str, fates: tuple[Fate, ...]) -> Finished:
    return Finished(
        scope=scope,
        batch=batch,
        transactions=record.transactions,
        records=record.records,
        lost=sum(fate is not Fate.COMMITTED for fate in fates),
    )
