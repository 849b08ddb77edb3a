"""The harness detects each planted bug and reports no error without one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tools.torture.producer import planted
from tools.torture.producer.plan import PATIENT_MS, ClusterFault, Partitioning, Plan
from tools.torture.proxy import Fault

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tools.torture.harness import Result

_ATTEMPTS = 4


@dataclass(frozen=True)
class Planted:
    """A bug, a plan that triggers it and the expected error."""

    bug: Callable[[], AbstractContextManager[None]]
    plan: Plan
    signs: tuple[str, ...]


def _plan(
    *faults: Fault,
    cluster_fault: ClusterFault = ClusterFault.NONE,
    rate: float = 0.15,
) -> Plan:
    options = {
        "linger.ms": "0",
        "batch.size": "1000",
        "request.timeout.ms": "1000",
        "delivery.timeout.ms": str(PATIENT_MS),
        "max.in.flight.requests.per.connection": "5",
        "retry.backoff.ms": "10",
        "retry.backoff.max.ms": "50",
        "reconnect.backoff.ms": "10",
        "reconnect.backoff.max.ms": "50",
        "allow.auto.create.topics": "false",
    }
    return Plan(
        seed=1,
        cluster_faults=(cluster_fault,),
        faults=faults,
        rate=rate,
        partitions=2,
        min_isr=1,
        sessions=1,
        chunks=30,
        rows=60,
        value_size=60,
        pause_ms=2,
        partitioning=Partitioning.EXPLICIT,
        patient=True,
        options=tuple(sorted(options.items())),
    ).with_long_request_timeout()


PLANTED = [
    Planted(
        planted.sequence_reused_after_a_timeout,
        _plan(Fault.LOSE_RESPONSE),
        ("OUT_OF_ORDER", "LOST", "do not contain", "reported twice"),
    ),
    Planted(
        planted.duplicate_is_a_failure,
        _plan(Fault.DUPLICATE),
        ("rows, persisted", "DUPLICATE_SEQUENCE_NUMBER"),
    ),
    Planted(
        planted.split_without_drain,
        _plan(Fault.DELAY_RESPONSE, cluster_fault=ClusterFault.SMALL_MESSAGES, rate=0.5),
        ("OUT_OF_ORDER", "LOST", "do not contain", "reported twice"),
    ),
    Planted(
        planted.epoch_bumped_while_batches_are_under_way,
        _plan(Fault.FORGET),
        ("INVALID_PRODUCER_EPOCH", "OUT_OF_ORDER", "order:"),
    ),
]


@pytest.mark.parametrize("one", PLANTED, ids=lambda one: one.bug.__name__)
def test_planted_bug_is_detected(torture: Callable[[Plan], Result[Plan]], one: Planted) -> None:
    sound = torture(one.plan)
    assert not sound.wrong
    with one.bug():
        runs = (torture(replace(one.plan, seed=seed)) for seed in range(1, 1 + _ATTEMPTS))
        found = next((each.wrong for each in runs if each.wrong), None)
    assert found
    assert any(sign in text for text in found for sign in one.signs), found
