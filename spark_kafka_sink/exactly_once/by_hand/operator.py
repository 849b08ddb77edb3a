"""What a person asks and does about the transactions under a prefix, from any machine."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.exactly_once.by_hand.actions import (
    abort_chosen,
    accept_loss,
    commit_decided,
)
from spark_kafka_sink.exactly_once.by_hand.held_back import held_back
from spark_kafka_sink.exactly_once.by_hand.overview import Standing, open_transactions
from spark_kafka_sink.exactly_once.scope import Scope
from spark_kafka_sink.exactly_once.steps.driver import connected_driver
from spark_kafka_sink.exactly_once.steps.markers import fates_by_partition
from spark_kafka_sink.exactly_once.transactional_id import driver_id, parse_driver_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.exactly_once.by_hand.actions import Finished
    from spark_kafka_sink.exactly_once.by_hand.held_back import HeldBack
    from spark_kafka_sink.exactly_once.by_hand.overview import OpenTransactionView
    from spark_kafka_sink.exactly_once.log.decision import Fate, Record
    from spark_kafka_sink.exactly_once.steps.driver import Driver
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction

SECONDS: Final = 30.0
"""How long each question to the brokers may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The open transactions under a prefix, and the partitions in which they hold readers back."""

    transactions: tuple[OpenTransactionView, ...]
    partitions: tuple[HeldBack, ...]
    now_ms: int
    """When that was, milliseconds since 1970."""


class TransactionOperator:
    """Looks at transactions and ends them by hand.

    Nothing stops a query that runs, unless its method says so.

    Args:
        config: how to connect, with the transactionalIdPrefix and the decision log's topic.
    """

    def __init__(self, config: SinkConfig) -> None:
        self._config = config
        self._prefix = config.exactly_once.transactional_id_prefix

    def overview(self) -> Overview:
        """The open transactions, and what they hold back.

        Raises:
            ProtocolError: the brokers are older than Kafka 3.0.
        """
        with self._driver() as driver:
            views = self._views(driver)
            deadline = driver.client.deadline(SECONDS)
            partitions = held_back(driver.client, driver.admin, views, deadline)
            now_ms = driver.client.wall_ms()
        return Overview(transactions=tuple(views), partitions=tuple(partitions), now_ms=now_ms)

    def records(self) -> dict[str, Record]:
        """The decision log's latest record of each scope under the prefix, by its driver's id."""
        with self._driver() as driver:
            records = driver.read_unfenced(create=False)
            latest = {scope: records.latest(scope) for scope in records.scopes(self._prefix)}
        named = ((driver_id(scope), record) for scope, record in latest.items())
        return {name: record for name, record in sorted(named) if record is not None}

    def fates(self, task: TaskTransaction) -> list[Fate]:
        """How a decided transaction has ended in each of its partitions, as far as they tell."""
        with self._driver() as driver:
            return [fate for _, fate in fates_by_partition(driver.client, task)]

    def commit(self) -> list[Finished]:
        """Commit all that is decided and not done.

        Raises:
            TornTransactionError: rows of a decided batch are lost.
        """
        with self._driver() as driver:
            return commit_decided(driver, driver.read_unfenced(create=False))

    def accept_loss(self, scope_id: str) -> Finished:
        """Let a scope go on behind its torn batch; a driver of it that runs is stopped.

        Args:
            scope_id: the id of the scope's driver, such as "orders/stream".

        Raises:
            TransactionError: the scope has no torn batch.
        """
        scope = parse_driver_id(scope_id)
        if scope is None or scope.prefix != self._prefix:
            raise TransactionError(
                f"{scope_id} is no scope of {self._prefix}",
                hint="Scopes are named as `describe` does, for instance "
                f"{driver_id(Scope.stream(self._prefix))}",
            )
        with self._driver() as driver:
            return accept_loss(driver.of(scope))

    def abort(self, chosen: Collection[str], *, undecided: bool) -> dict[str, int]:
        """Abort orphans, or the transactions that are named; see `abort_chosen`.

        With `undecided` the scopes' drivers are fenced first, so that none of them decides what is
        about to be aborted.
        """
        with self._driver() as driver:
            views = self._views(driver)
            if undecided:
                tasks = [each for each in views if parse_driver_id(each.transactional_id) is None]
                scopes = {each.scope for each in tasks if each.standing is Standing.UNDECIDED}
                for scope in sorted(scopes, key=str):
                    driver.of(scope).fence()
                still_open = {each.transactional_id for each in views}
                views = [
                    each for each in self._views(driver) if each.transactional_id in still_open
                ]
            deadline = driver.client.deadline(SECONDS)
            return abort_chosen(driver.admin, views, chosen, deadline, undecided=undecided)

    @contextmanager
    def _driver(self) -> Iterator[Driver]:
        with connected_driver(self._config, Scope.stream(self._prefix)) as driver:
            yield driver

    def _views(self, driver: Driver) -> list[OpenTransactionView]:
        records = driver.read_unfenced(create=False)
        deadline = driver.client.deadline(SECONDS)
        return open_transactions(driver.admin, records, self._prefix, deadline)
