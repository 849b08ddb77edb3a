"""Bugs that the seeded runs must find, planted into the driver.

Those that need two drivers between each other's requests are for the model (`tools/model`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.exactly_once import protocol
from spark_kafka_sink.exactly_once.protocol import AbortOurs, Verdict
from spark_kafka_sink.exactly_once.steps import abort, commit
from spark_kafka_sink.exactly_once.steps.recovery import commit_all

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Plant = Callable[[pytest.MonkeyPatch], None]


def _marker_not_checked(patch: pytest.MonkeyPatch) -> None:
    original = protocol.judge

    def judge(state: Any, caller: Any) -> Any:
        verdict = original(state, caller)
        return Verdict.WRITE if verdict is Verdict.SKIP else verdict

    patch.setattr(protocol, "judge", judge)


def _abort_does_not_read(patch: pytest.MonkeyPatch) -> None:
    def next_abort_step(state: Any, caller: Any) -> AbortOurs:
        del state, caller
        return AbortOurs()

    def never_decided(state: Any, ours: Any) -> frozenset[str]:
        del state
        return frozenset(ours)

    patch.setattr(abort, "next_abort_step", next_abort_step)
    patch.setattr(abort, "never_decided", never_decided)


def _accept(*_: object) -> None:
    """For checks that find nothing wrong."""


def _decided_after_end(patch: pytest.MonkeyPatch) -> None:
    original = commit._decide

    def decide(call: Any, owner: Any, decided: Any) -> Any:
        commit_all(call.driver, decided)
        call.driver.check_alive = _accept  # they are ended
        return original(call, owner, decided)

    patch.setattr(commit, "_decide", decide)


BUGS: dict[str, Plant] = {
    "marker not checked": _marker_not_checked,
    "abort() does not read the log": _abort_does_not_read,
    "decision written after EndTxn": _decided_after_end,
}
