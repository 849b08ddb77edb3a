"""Carrying out a decision: EndTxn(commit) for every transaction of it, until each is answered."""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.exactly_once.end_outcome import EndOutcome, commit_outcome
from spark_kafka_sink.exactly_once.log.decision import Fate
from spark_kafka_sink.exactly_once.steps.markers import settled
from spark_kafka_sink.exactly_once.steps.torn import fates_of
from spark_kafka_sink.protocol.error_codes import ClientErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.admin.transaction_states import TransactionDescription
    from spark_kafka_sink.exactly_once.log.decision import DecidedBatch
    from spark_kafka_sink.exactly_once.scope import Scope
    from spark_kafka_sink.exactly_once.steps.driver import Driver

REPORT_SECONDS: Final = 5.0
"""How often it is said what is waited for."""
_LOG = logging.getLogger(__name__)


def commit_all(driver: Driver, decided: DecidedBatch) -> tuple[Fate, ...]:
    """Commit what the driver's own scope has decided; to do so again changes nothing.

    There is no deadline: nothing ends this but answers. A decision that is not carried out would
    hold back readers, and lose its rows when the transactions time out.

    Returns:
        What became of each transaction where the batch is torn; nothing where all are committed.

    Raises:
        KafkaProdError: a coordinator refuses; the decision stands, and whoever comes next tries
            again.
    """
    with driver.watch.step("commit"):
        return _fates(driver, decided, _end_all(driver, decided))


def commit_others(
    driver: Driver, batches: Mapping[Scope, DecidedBatch], deadline: float
) -> dict[Scope, tuple[Fate, ...] | KafkaProdError]:
    """Commit what other scopes have decided, all at once, so that none waits for another one.

    Args:
        driver: of any scope.
        batches: the decided batch of each scope.
        deadline: when to give up, in seconds of the client's clock. EndTxn has half of the time;
            the rest is for finding out what became of transactions that are lost.

    Returns:
        As of `commit_all`, or the error, for each scope.
    """
    transactions = [one.transaction for each in batches.values() for one in each.transactions]
    now = driver.client.now()
    with driver.watch.step("commit"):
        codes = driver.admin.end(transactions, commit=True, deadline=now + (deadline - now) / 2)
        return {scope: _result(driver, each, codes, deadline) for scope, each in batches.items()}


def _result(
    driver: Driver, decided: DecidedBatch, codes: Mapping[str, int], deadline: float
) -> tuple[Fate, ...] | KafkaProdError:
    """What has become of one scope's batch, by the answers to the EndTxns of all scopes."""
    own = {each.transactional_id: codes[each.transactional_id] for each in decided.transactions}
    waiting = {name: code for name, code in own.items() if _is_unsettled(code)}
    if waiting:
        name, code = next(iter(waiting.items()))
        more = f" and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        return driver.client.unavailable(f"EndTxn of {name}{more}", code)
    try:
        fates = _fates(driver, decided, own, deadline)
    except KafkaProdError as error:
        return error
    if Fate.UNKNOWN in fates and driver.client.now() >= deadline:
        return driver.client.unavailable("reading from the topics how transactions ended")
    return fates


def _fates(
    driver: Driver,
    decided: DecidedBatch,
    codes: Mapping[str, int],
    deadline: float | None = None,
) -> tuple[Fate, ...]:
    """See `commit_all`; `codes` are final answers."""
    refused = {name: code for name, code in codes.items() if _is_refusal(code)}
    if refused:
        name, code = next(iter(refused.items()))
        raise driver.admin.refusal("EndTxn of a decided transaction,", name, code)
    unclear = [name for name, code in codes.items() if code]
    if not unclear:
        return ()
    fates = fates_of(decided, codes, _descriptions(driver, unclear))
    fates = settled(driver.client, decided, fates, deadline)
    return fates if any(fate is not Fate.COMMITTED for fate in fates) else ()


def _end_all(driver: Driver, decided: DecidedBatch) -> dict[str, int]:
    """The final answer for each transactional id."""
    waiting = {each.transactional_id: each.transaction for each in decided.transactions}
    codes: dict[str, int] = dict.fromkeys(waiting, int(ClientErrorCode.not_sent))
    while waiting:
        deadline = driver.client.deadline(REPORT_SECONDS)
        answers = driver.admin.end(list(waiting.values()), commit=True, deadline=deadline)
        codes |= answers
        for name, code in answers.items():
            if not _is_unsettled(code):
                del waiting[name]
        if waiting:
            _report(driver, decided, {name: codes[name] for name in waiting})
    return codes


def _report(driver: Driver, decided: DecidedBatch, waiting: Mapping[str, int]) -> None:
    errors = Counter(error_name(code) for code in waiting.values())
    _LOG.warning(
        "batch %s of %s is decided; EndTxn of %d of %d transactions is not answered yet: %s, "
        "such as %s. It is tried until it is",
        decided.batch,
        driver.scope,
        len(waiting),
        len(decided.transactions),
        ", ".join(f"{name} ({count})" for name, count in errors.most_common()),
        next(iter(waiting)),
    )


def _is_unsettled(code: int) -> bool:
    return commit_outcome(code) is EndOutcome.RETRY


def _is_refusal(code: int) -> bool:
    return commit_outcome(code) is EndOutcome.FAILED


def _descriptions(driver: Driver, names: list[str]) -> Mapping[str, TransactionDescription]:
    """What coordinators say of transactions that are lost or not clear; nothing if they can't."""
    try:
        return driver.describe(names, driver.client.deadline(REPORT_SECONDS)) or {}
    except KafkaProdError as error:
        _LOG.warning(
            "what became of %s can't be asked: %s", plural(len(names), "transaction"), error
        )
        return {}
