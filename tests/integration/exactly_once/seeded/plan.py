"""The faults of a run, chosen by its seed."""

from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.integration.exactly_once.stepped_client import STEPS

BATCHES = 3
TASKS = 3
WRITES = 2
"""Writes of a foreachBatch function, each to a different topic."""
TASK_APIS = ("find_coordinator", "init_producer_id", "produce", "metadata")
DRIVER_APIS = (
    "find_coordinator",
    "init_producer_id",
    "list_offsets",
    "fetch",
    "describe_transactions",
    "produce",
    "end_txn",
    "list_transactions",
)
QUICK_EFFECTS = ("close", "cut=1", "error=NOT_COORDINATOR", "error=COORDINATOR_LOAD_IN_PROGRESS")
"""The first is a lost request, the second a lost response; both are detected immediately."""
COORDINATED = frozenset({"init_producer_id", "end_txn"})
"""APIs whose responses can have the errors above."""
SLOW_EFFECTS = ("lose-request", "lose-response")
"""Detected after request.timeout.ms."""
SLOW_SHARE = 0.05


class FollowUp(Enum):
    """What happens after a failed commit(), or while it waits at a step."""

    RESTART = "the query is started again"
    ABORT = "Spark calls abort(), and the query is started again"
    SECOND_DRIVER = "a second driver runs the batch meanwhile"
    INTERRUPT = "commit() is interrupted, and continues while abort() runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a micro-batch by one driver."""

    lost: tuple[int, ...] = ()
    """Tasks whose first attempt is lost and leaves its transaction open."""
    empty: tuple[int, ...] = ()
    """Tasks without rows."""
    task_fault: str | None = None
    commit_fault: str | None = None
    step: str | None = None
    """The step at which the driver crashes, or at which `then` happens while it waits."""
    then: FollowUp = FollowUp.RESTART
    comes_late: bool = False
    """Commit its messages again after later batches."""
    write: int = 0
    """Index of the affected write of the function; the other write has no faults."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The attempts of each batch before a final attempt without faults."""

    batches: tuple[tuple[Attempt, ...], ...]
    function: bool = False
    """True if a foreachBatch function writes each batch to two topics."""


def draw(seed: int) -> Plan:
    """Return the plan of a seed; consecutive seeds cover all steps and APIs."""
    rng = Random(seed)
    batches = []
    for batch in range(BATCHES):
        empty = tuple(task for task in range(TASKS) if rng.random() < 0.2)
        count = rng.choice((0, 1, 1, 2))
        batches.append(
            tuple(_attempt(rng, seed + batch + number, empty) for number in range(count))
            + (Attempt(empty=empty),)
        )
    return Plan(tuple(batches), function=seed % 3 == 2)


def _attempt(rng: Random, turn: int, empty: tuple[int, ...]) -> Attempt:
    return Attempt(
        lost=tuple(task for task in range(TASKS) if rng.random() < 0.2),
        empty=empty,
        task_fault=_fault(rng, TASK_APIS[turn % len(TASK_APIS)], 3) if rng.random() < 0.3 else None,
        commit_fault=(
            _fault(rng, DRIVER_APIS[turn % len(DRIVER_APIS)], 6) if rng.random() < 0.6 else None
        ),
        step=STEPS[turn % len(STEPS)] if rng.random() < 0.8 else None,
        then=rng.choice(tuple(FollowUp)),
        comes_late=rng.random() < 0.2,
        write=turn % WRITES,
    )


def _fault(rng: Random, api: str, most: int) -> str:
    if rng.random() < SLOW_SHARE:
        effect = rng.choice(SLOW_EFFECTS)
    else:
        effect = rng.choice(QUICK_EFFECTS if api in COORDINATED else QUICK_EFFECTS[:2])
    return f"{api}:{effect}:next={rng.randint(1, 2)}:after={rng.randrange(most)}"
