"""Decisions for tests, and Hypothesis strategies for them."""

from typing import Any

from hypothesis import strategies as st

from spark_kafka_sink.exactly_once.decision_record import DecisionRecord, Fate
from spark_kafka_sink.exactly_once.scope_state import Decided, Done, NoDecision, Planning
from spark_kafka_sink.exactly_once.task_transaction import PartitionRange, TaskTransaction
from spark_kafka_sink.exactly_once.transactional_id import Scope
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion

ORDERS = Scope.stream("orders")
_LONG = st.integers(0, 2**63 - 1)
_TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
_OFFSET = st.none() | _LONG
_RANGES = st.builds(
    PartitionRange,
    topic=_TEXT,
    partition=st.integers(0, 2**31 - 1),
    records=_LONG,
    first_offset=_OFFSET,
    last_offset=_OFFSET,
)
_TRANSACTIONS = st.builds(
    TaskTransaction,
    transaction=st.builds(
        TransactionalProducer,
        transactional_id=_TEXT,
        producer_id=_LONG,
        epoch=st.integers(0, 2**15 - 1),
        version=st.sampled_from(TransactionVersion),
    ),
    started_ms=_LONG,
    timeout_ms=_LONG,
    partitions=st.lists(_RANGES, max_size=5).map(
        lambda ranges: tuple(sorted(ranges, key=lambda transaction: transaction.topic))
    ),
)
_QUERY = st.none() | _TEXT
_NONCES = st.lists(_TEXT, max_size=3).map(tuple)
_BATCH: dict[str, st.SearchStrategy[Any]] = {
    "query_id": _QUERY,
    "batch": _TEXT,
    "retired_query_ids": st.lists(_QUERY, max_size=3).map(tuple),
    "rows": st.none() | _LONG,
    "plannings": st.lists(st.builds(Planning, _TEXT, _TEXT), max_size=2).map(tuple),
    "topics": st.none() | st.lists(_TEXT, max_size=2).map(tuple),
}
DECIDED = st.builds(Decided, transactions=st.lists(_TRANSACTIONS, max_size=4).map(tuple), **_BATCH)


@st.composite
def records(draw: st.DrawFn) -> DecisionRecord:
    """Any record that a driver may write: decided, torn, done, or given up."""
    at_ms = draw(_LONG)
    if draw(st.booleans()):
        nothing = draw(st.builds(NoDecision, _NONCES))
        return DecisionRecord(state=nothing, at_ms=at_ms, transactions=0, records=0)
    if draw(st.booleans()):
        state = draw(st.builds(Done, given_up_nonces=_NONCES, **_BATCH))
        return DecisionRecord(
            state=state, at_ms=at_ms, transactions=draw(_LONG), records=draw(_LONG)
        )
    decided = draw(DECIDED)
    count = len(decided.transactions)
    fates = draw(st.lists(st.sampled_from(Fate), min_size=count, max_size=count))
    return DecisionRecord.of(decided, at_ms, tuple(fates) if draw(st.booleans()) else ())


def task_transactions(
    tasks: int, *, batch: str = "17", partitions: int = 1
) -> tuple[TaskTransaction, ...]:
    """Create transactions of `tasks` tasks with 10 records in each of `partitions` partitions."""
    return tuple(
        TaskTransaction(
            transaction=TransactionalProducer(
                transactional_id=f"orders/stream/q/{batch}/3fa9c01be2d4a7f0/{task}/1{task}",
                producer_id=4_000 + task,
                epoch=0,
                version=TransactionVersion.V2,
            ),
            started_ms=1_763_789_990_000,
            timeout_ms=900_000,
            partitions=tuple(
                PartitionRange(
                    topic="events", partition=task, records=10, first_offset=0, last_offset=9
                )
                for task in range(partitions)
            ),
        )
        for task in range(tasks)
    )


def decided(tasks: int, *, batch: str = "17", partitions: int = 1) -> DecisionRecord:
    """Create a decision about `task_transactions`."""
    transactions = task_transactions(tasks, batch=batch, partitions=partitions)
    return DecisionRecord.of(
        Decided(query_id="q", batch=batch, transactions=transactions), 1_763_790_000_000
    )
