"""Breadth-first search through every world that can be reached, each visited once."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.model.context import Context
from tools.model.invariants import is_torn, reached, violation
from tools.model.rules import Rules
from tools.model.steps import successors

if TYPE_CHECKING:
    from tools.model.scenario import Scenario
    from tools.model.world import World


@dataclass(frozen=True, slots=True)
class Event:
    """A step of a run."""

    who: str
    what: str
    world: World
    """Behind it."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The shortest run that breaks an invariant, or ends where no way leads to the goal."""

    violation: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What a search has seen."""

    worlds: int
    transitions: int
    torn: int
    """Worlds in which a decided transaction has timed out."""
    counterexample: Counterexample | None


class _Graph:
    """Worlds by number, in the order of their discovery."""

    def __init__(self, start: World) -> None:
        self.worlds = [start]
        self._numbers = {start: 0}
        self._reached_by: list[tuple[int, str, str]] = [(-1, "", "")]
        self.sources = array("l")
        self.targets = array("l")

    def add(self, source: int, who: str, what: str, world: World) -> bool:
        """Note a transition; says whether the world is new."""
        number = self._numbers.setdefault(world, len(self.worlds))
        self.sources.append(source)
        self.targets.append(number)
        if number < len(self.worlds):
            return False
        self.worlds.append(world)
        self._reached_by.append((source, who, what))
        return True

    def run_to(self, number: int) -> tuple[Event, ...]:
        """A shortest run from the start to a world."""
        events = []
        while number > 0:
            source, who, what = self._reached_by[number]
            events.append(Event(who, what, self.worlds[number]))
            number = source
        return tuple(reversed(events))

    def without_a_way_to(self, goals: set[int]) -> int | None:
        """The first world from which no goal can be reached."""
        before: list[list[int]] = [[] for _ in self.worlds]
        for source, target in zip(self.sources, self.targets, strict=True):
            before[target].append(source)
        seen = set(goals)
        front = list(goals)
        while front:
            for source in before[front.pop()]:
                if source not in seen:
                    seen.add(source)
                    front.append(source)
        return next((number for number in range(len(self.worlds)) if number not in seen), None)


def search(scenario: Scenario, rules: Rules | None = None) -> Result:
    """Try every order of all steps and faults of a scenario, up to the first violation."""
    context = Context(scenario, Rules() if rules is None else rules)
    graph = _Graph(scenario.start())
    found = None
    source = 0
    while source < len(graph.worlds) and found is None:
        for who, what, world in successors(context, graph.worlds[source]):
            if graph.add(source, who, what, world):
                found = violation(scenario, world)
                if found is not None:
                    break
        source += 1
    counterexample = _stuck(scenario, graph) if found is None else None
    if found is not None:
        counterexample = Counterexample(found, graph.run_to(len(graph.worlds) - 1))
    torn = sum(1 for world in graph.worlds if is_torn(world))
    return Result(len(graph.worlds), len(graph.sources), torn, counterexample)


def _stuck(scenario: Scenario, graph: _Graph) -> Counterexample | None:
    goals = {number for number, world in enumerate(graph.worlds) if reached(scenario, world)}
    stuck = graph.without_a_way_to(goals)
    if stuck is None:
        return None
    return Counterexample("STUCK: from here nothing leads to the goal", graph.run_to(stuck))
