"""Finishing a decision that somebody else has made, in an epoch of one's own or without."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import FencedError, KafkaProdError
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.exactly_once.log.decision import Record
from spark_kafka_sink.exactly_once.protocol import takes_over
from spark_kafka_sink.exactly_once.steps.finish import commit_all
from spark_kafka_sink.exactly_once.steps.torn import torn_error

if TYPE_CHECKING:
    from spark_kafka_sink.exactly_once.log.decision import DecidedBatch, Fate
    from spark_kafka_sink.exactly_once.protocol import Caller
    from spark_kafka_sink.exactly_once.steps.driver import Driver
    from spark_kafka_sink.protocol.open_transaction import OpenTransaction

APPEND_SECONDS: Final = 30.0
"""How long it may take to note what has become of a decision."""
_LOG = logging.getLogger(__name__)


def roll_forward(
    driver: Driver,
    owner: OpenTransaction,
    decided: DecidedBatch,
    caller: Caller | None,
    known: tuple[Fate, ...],
) -> OpenTransaction:
    """Commit what an earlier driver has decided, and note that it is done.

    Args:
        driver: of the scope.
        owner: the driver at its epoch.
        decided: what the log says, read in this epoch.
        caller: who may take over from a torn batch, with resetTransactionalState; None for nobody.
        known: the fates that the log has of a torn batch.

    Returns:
        The driver at the epoch of its next append.

    Raises:
        TornTransactionError: some of it is lost.
        FencedError: a newer driver has taken over.
    """
    _LOG.warning(
        "batch %s of %s was decided by a driver that did not finish it: committing %s now",
        decided.batch,
        driver.scope,
        plural(len(decided.transactions), "transaction"),
    )
    fates = known or commit_all(driver, decided)
    driver.restart()
    if fates and caller is not None and takes_over(decided, caller):
        _LOG.warning("%s", torn_error(driver.scope, decided, fates))
        return owner
    if fates:
        note_torn(driver, owner, decided, fates, known)
        raise torn_error(driver.scope, decided, fates)
    done = Record.done(decided, driver.client.wall_ms())
    return driver.append(owner, done, "done", APPEND_SECONDS)


def note_done(driver: Driver, owner: OpenTransaction, record: Record | None) -> None:
    """Append that our own decision is carried out.

    The batch is visible already: that this fails, or that a newer driver has taken over, takes
    nothing from it. Whoever comes next finds all transactions committed.
    """
    try:
        driver.append(owner, record, "done", APPEND_SECONDS)
    except FencedError as error:
        _LOG.warning("the batch is committed, and its driver is done: %s", error)
    except KafkaProdError as error:
        _LOG.warning("the batch is committed, but the decision log can't say so: %s", error)


def note_torn(
    driver: Driver,
    owner: OpenTransaction,
    decided: DecidedBatch,
    fates: tuple[Fate, ...],
    known: tuple[Fate, ...] = (),
) -> None:
    """Keep in the log what became of each transaction, while the brokers still know."""
    if known:
        return
    torn = Record.of(decided, driver.client.wall_ms(), fates)
    try:
        driver.append(owner, torn, "torn", APPEND_SECONDS)
    except KafkaProdError as error:
        _LOG.warning("the decision log can't say that the batch is torn: %s", error)
