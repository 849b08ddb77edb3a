"""What must hold in every world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.protocol import Decided, Done
from tools.model.broker import status_of
from tools.model.scenario import TASKS, Goal
from tools.model.world import Pc, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.model.scenario import Scenario
    from tools.model.world import World

_ALIVE = frozenset({Status.OPEN, Status.COMMITTED, Status.TIMED_OUT})


def violation(scenario: Scenario, world: World) -> str | None:
    """What is wrong with a world, in a sentence."""
    for each in world.visible:
        if world.visible.count(each) > 1:
            return f"DOUBLED: the rows of task {each[2]}, batch {each[1]}, are visible twice"
    for query, name, batch in _promised(scenario, world):
        for partition in range(TASKS):
            rows = (query, name, partition)
            if scenario.has_rows(batch, partition) and rows not in world.visible:
                return f"LOST: batch {name} counts as done without the rows of task {partition}"
    if any(driver.pc is Pc.TORN for driver in world.drivers) and not is_torn(world):
        return "FALSE ALARM: a batch is called torn, and no transaction has timed out"
    return _harmed(world)


def is_torn(world: World) -> bool:
    """Whether a decided transaction has timed out: the hole that the protocol is known to have."""
    return isinstance(world.log, Decided) and any(
        status_of(world, each) is Status.TIMED_OUT for each in world.log.transactions
    )


def reached(scenario: Scenario, world: World) -> bool:
    """Whether the goal is: everything is written, or what is torn has stopped a query."""
    if is_torn(world):
        return any(driver.pc is Pc.TORN for driver in world.drivers)
    if scenario.goal is Goal.FIRST:
        return all(_is_visible(scenario, world, partition) for partition in range(TASKS))
    complete = [count == scenario.batches for count in world.spark]
    return all(complete) if scenario.goal is Goal.ALL else any(complete)


def _is_visible(scenario: Scenario, world: World, partition: int) -> bool:
    rows = (scenario.runners[0].query, scenario.rows_name(0, 0), partition)
    return rows in world.visible


def _promised(scenario: Scenario, world: World) -> Iterator[tuple[str | None, str, int]]:
    """(query, batch's name, batch) of what Spark's commit logs or the decision log call done."""
    for index, runner in enumerate(scenario.runners):
        for batch in range(world.spark[runner.checkpoint]):
            yield runner.query, scenario.rows_name(index, batch), batch
    if isinstance(world.log, Done) and not scenario.function:
        number = 0 if world.log.query is None else int(world.log.batch)
        yield world.log.query, world.log.batch, number


def _harmed(world: World) -> str | None:
    if isinstance(world.log, Decided):
        for each in world.log.transactions:
            status = status_of(world, each)
            if status not in _ALIVE:
                return f"HARMED: {each.name} is decided, and it is {status.value}"
    return None
