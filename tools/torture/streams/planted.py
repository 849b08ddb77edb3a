"""Planted bugs and the plans that must reveal them: `python -m tools.torture planted`."""

from dataclasses import dataclass, replace

from tools.torture.cluster import Brokers
from tools.torture.streams.injection.hooks import Bug
from tools.torture.streams.plan import Choice, Plan, draw
from tools.torture.streams.run import StreamScenarios
from tools.torture.streams.scenarios import Kind, Sink, Step, Stop

_SEED = 7


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, and the kind of fault that reveals it at `steps` of batch 0.

    The result of the run must contain one of `signs`.
    """

    bug: Bug
    kind: Kind
    steps: tuple[Stop, ...]
    signs: tuple[str, ...]

    def plan(self) -> Plan:
        """Return a small deterministic plan that reveals the bug."""
        plan = draw(_SEED, Sink.EXACTLY_ONCE, Choice(kind=self.kind, nodes=1))
        source = replace(
            plan.source,
            rows=(45, 50, 45, 0, 45, 45),
            files_per_batch=2,
            partitions=3,
            dead=frozenset(),
            slow=frozenset(),
        )
        faults = tuple(
            replace(fault, stop=stop) for fault, stop in zip(plan.faults, self.steps, strict=False)
        )
        return replace(plan, source=source, faults=faults, bug=self.bug)


def _at(step: Step, hit: int = 1, after: int | None = None) -> Stop:
    return Stop(step=step, batch=0, hit=hit, after=after)


PLANTED = (
    Planted(
        Bug.MARKER_NOT_CHECKED,
        Kind.DRIVER_KILLED_AFTER_COMMIT,
        (_at(Step.COMMIT_ENDED),),
        ("DOUBLED",),
    ),
    Planted(Bug.QUERY_NOT_COMPARED, Kind.OTHER_CHECKPOINT, (), ("is not rejected",)),
    Planted(
        Bug.READ_BEFORE_FENCE,
        Kind.DRIVERS_INTERLEAVED,
        (_at(Step.FENCING), _at(Step.APPENDED, 2, after=0)),
        ("DOUBLED",),
    ),
    Planted(Bug.ABORT_DOES_NOT_READ, Kind.COMMIT_RAISES, (_at(Step.APPENDED),), ("torn:", "LOST")),
    Planted(
        Bug.DECIDED_AFTER_END, Kind.DRIVER_KILLED_DECIDING, (_at(Step.APPENDING),), ("DOUBLED",)
    ),
    Planted(
        Bug.ATTEMPT_LEFT_OUT,
        Kind.TASK_WAKES_LATE,
        (_at(Step.TASK_OPENING), _at(Step.APPENDED, after=0)),
        ("torn:", "LOST"),
    ),
    Planted(
        Bug.FENCED_IS_SUCCESS, Kind.TORN_BY_OTHERS, (_at(Step.APPENDED),), ("LOST", "not noticed")
    ),
)


def find_planted_bugs() -> bool:
    """Run the planted bugs and print the results; return True if all bugs are found."""
    missed = 0
    scenarios = StreamScenarios()
    with scenarios.new_cluster(Brokers()) as cluster:
        for planted in PLANTED:
            result = scenarios.run(cluster, planted.plan())
            found = any(sign in text for text in result.wrong for sign in planted.signs)
            missed += not found
            word = "found" if found else "MISSED"
            print(f"{word:7} {planted.bug} ({planted.kind}): {result.outcome}", flush=True)
    return not missed
