"""The searches of `make test`, and one that tries more faults in one run and takes minutes."""

from __future__ import annotations

from tools.model.scenario import Goal, Runner, Scenario, Version

_ONE = (Runner(),)
_JOB = Runner(query=None, checkpoint=0)
_QUERIES = (Runner(), Runner(query="q2", checkpoint=1))
_RESETTING = (Runner(reset=True), Runner(query="q2", checkpoint=1, reset=True))

SCENARIOS = (
    Scenario(
        name="a driver that restarts, V1",
        runners=_ONE,
        version=Version.V1,
        crashes=1,
        lost=(1, 0),
        timeouts=1,
        unclear=1,
        failures=1,
    ),
    Scenario(
        name="a driver that restarts, V2",
        runners=_ONE,
        crashes=1,
        lost=(1, 1),
        timeouts=1,
        unclear=1,
        failures=1,
    ),
    Scenario(name="two drivers, each dies once", crashes=1),
    Scenario(name="two drivers and a timeout, V1", version=Version.V1, timeouts=1),
    Scenario(name="two drivers and a timeout, V2", timeouts=1),
    Scenario(name="two drivers and an append without an answer", unclear=1),
    Scenario(name="two drivers and lost attempts", batches=1, lost=(1, 0), failures=1),
    Scenario(
        name="two drivers and tasks without rows",
        empty=frozenset({(0, 1), (1, 0), (1, 1)}),
        unclear=1,
    ),
    Scenario(
        name="a batch job that runs twice at once",
        runners=(_JOB, Runner(query=None, checkpoint=1)),
        batches=1,
        crashes=1,
        timeouts=1,
        unclear=1,
    ),
    Scenario(
        name="a function that writes twice, run by two drivers",
        function=True,
        goal=Goal.FIRST,
        crashes=1,
        unclear=1,
    ),
    Scenario(name="two queries on a prefix", runners=_QUERIES, goal=Goal.ANY, crashes=1),
    Scenario(name="two queries that both reset", runners=_RESETTING, goal=Goal.ANY),
    Scenario(name="two drivers and a deposed leader of the log", batches=1, stale=1, unclear=1),
    Scenario(
        name="a deposed leader of the log, and commit() goes on while abort() runs",
        runners=(Runner(), Runner(starts=False)),
        batches=1,
        stale=1,
        interrupts=1,
    ),
    Scenario(
        name="commit() goes on while abort() runs",
        runners=(Runner(), Runner(starts=False)),
        crashes=1,
        timeouts=1,
        interrupts=1,
    ),
)

FULL = Scenario(
    name="two drivers, each dies once, with a timeout and an append without an answer",
    crashes=1,
    timeouts=1,
    unclear=1,
)
"""Minutes, and a GiB or two: `python -m tools.model --full`."""
