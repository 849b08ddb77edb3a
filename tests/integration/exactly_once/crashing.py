"""Drivers that die at a chosen step, between one request to Kafka and the next."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from spark_kafka_sink.admin.client_pool import borrowed_client
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.exactly_once.steps.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spark_kafka_sink.exactly_once.log.decision import Record
    from spark_kafka_sink.exactly_once.log.decision_records import DecisionRecords
    from spark_kafka_sink.exactly_once.task_transaction import TaskTransaction
    from spark_kafka_sink.protocol.open_transaction import OpenTransaction
    from tests.integration.exactly_once.writing import Writes

STEPS = (
    "after fence",
    "after read",
    "after describe",
    "before decide",
    "after decide",
    "between two EndTxns",
    "after commit",
    "before done",
    "after done",
)
DECIDED = STEPS[STEPS.index("after decide") :]
"""The steps behind the decision."""


class CrashError(Exception):
    """The process is gone."""


class CrashingDriver(Driver):
    """Raises at one step; nothing of it happens afterwards."""

    step = ""

    def crash(self, step: str) -> None:
        """Die if this is the step."""
        if step == self.step:
            raise CrashError(step)

    def fence(self) -> OpenTransaction:
        """See `Driver`."""
        owner = super().fence()
        self.crash("after fence")
        return owner

    def read(self) -> DecisionRecords:
        """See `Driver`."""
        records = super().read()
        self.crash("after read")
        return records

    def check_alive(self, transactions: Sequence[TaskTransaction]) -> None:
        """See `Driver`."""
        super().check_alive(transactions)
        self.crash("after describe")

    def append(
        self, owner: OpenTransaction, record: Record | None, step: str, seconds: float = 0.0
    ) -> OpenTransaction:
        """See `Driver`."""
        self.crash(f"before {step}")
        owner = super().append(owner, record, step, seconds)
        self.crash(f"after {step}")
        return owner


class _CrashingAdmin(TransactionAdmin):
    """Ends one transaction and dies, or all of them."""

    def __init__(self, driver: CrashingDriver) -> None:
        super().__init__(driver.client)
        self._driver = driver

    def end(
        self, transactions: Sequence[OpenTransaction], *, commit: bool, deadline: float | None
    ) -> dict[str, int]:
        """See `TransactionAdmin`."""
        if commit and self._driver.step == "between two EndTxns":
            transactions = transactions[:1]
        codes = super().end(transactions, commit=commit, deadline=deadline)
        if commit:
            self._driver.crash("between two EndTxns")
            self._driver.crash("after commit")
        return codes


@contextmanager
def crashing_driver(writes: Writes, step: str) -> Iterator[Driver]:
    """A driver that dies at a step of `STEPS`."""
    with borrowed_client(writes.config.producer) as client:
        driver = CrashingDriver(client, writes.config, writes.scope)
        driver.step = step
        driver.admin = _CrashingAdmin(driver)
        yield driver
