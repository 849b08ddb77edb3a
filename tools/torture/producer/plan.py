"""The plan of a run, which depends only on the seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

from tools.torture.cluster import Brokers
from tools.torture.proxy_faults import DELAYS, LOSSES, Fault

_MIXES: tuple[tuple[tuple[Fault, ...], int], ...] = (
    ((), 2),
    (tuple(sorted(LOSSES)), 4),
    (tuple(sorted(LOSSES | DELAYS)), 4),
    (tuple(sorted(DELAYS)), 1),
    ((Fault.LOSE_RESPONSE, Fault.RESET_RESPONSE, Fault.CUT_RESPONSE), 3),
    ((Fault.LOSE_REQUEST, Fault.LOSE_RESPONSE, Fault.REFUSE, Fault.DENY), 3),
    ((Fault.REFUSE, Fault.DENY, Fault.DUPLICATE), 3),
    ((Fault.FORGET, Fault.REFUSE, Fault.DELAY_RESPONSE), 2),
    ((Fault.FORGET, *sorted(LOSSES)), 1),
    (tuple(sorted(Fault)), 2),
)
PATIENT_MS = 40_000
_SECURED = 0.25
"""Fraction of the runs that use SASL_SSL."""
_FIRST_SECURED = 278
"""First seed that can use SASL_SSL. Earlier runs in the ledger were drawn without SASL_SSL."""


class ClusterFault(StrEnum):
    """A fault of the brokers or the topic while the sessions write."""

    NONE = "none"
    KILL = "kill"
    KILL_FOR_LONG = "kill-for-long"
    PAUSE = "pause"
    STOP = "stop"
    ROLL = "roll"
    MOVE = "move"
    DELETE = "delete"
    RECREATE = "recreate"
    FEW_REPLICAS = "few-replicas"
    SMALL_MESSAGES = "small-messages"


_DELETING = (ClusterFault.RECREATE, ClusterFault.DELETE)
_WEIGHTS = {
    ClusterFault.NONE: 16,
    ClusterFault.KILL: 2,
    ClusterFault.KILL_FOR_LONG: 2,
    ClusterFault.PAUSE: 3,
    ClusterFault.STOP: 1,
    ClusterFault.ROLL: 1,
    ClusterFault.MOVE: 5,
    ClusterFault.DELETE: 2,
    ClusterFault.RECREATE: 3,
    ClusterFault.FEW_REPLICAS: 2,
    ClusterFault.SMALL_MESSAGES: 5,
}
_LAST = (*(fault for fault in ClusterFault if fault not in _DELETING), *_DELETING)
"""Order of the faults. Faults that delete the topic are last, because no fault can follow them."""
_QUICK = (ClusterFault.NONE, ClusterFault.MOVE, ClusterFault.SMALL_MESSAGES)


class Partitioning(StrEnum):
    """How rows are assigned to partitions."""

    EXPLICIT = "explicit"
    KEYED = "keyed"
    STICKY = "sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All parameters of a run except the cluster. Times are in ms unless noted otherwise.

    `patient` is True if delivery.timeout.ms exceeds the duration of all faults and the topic is not
    deleted. `secured` is True if the sessions use SASL_SSL and reauthenticate every two seconds.
    """

    seed: int
    cluster_faults: tuple[ClusterFault, ...]
    faults: tuple[Fault, ...]
    rate: float
    partitions: int
    min_isr: int
    sessions: int
    chunks: int
    rows: int
    value_size: int
    pause_ms: int
    partitioning: Partitioning
    patient: bool
    options: tuple[tuple[str, str], ...]
    secured: bool = False

    @property
    def brokers(self) -> Brokers:
        """The configuration of the cluster, which is the same for all plans."""
        return Brokers(nodes=3)

    @property
    def labels(self) -> dict[str, Any]:
        """The fields of the run's line in the ledger that do not depend on its result."""
        kinds = [*self.cluster_faults, "faults" if self.faults else "no-faults"]
        protocol = {"protocol": "SASL_SSL"} if self.secured else {}
        scenario = "+".join([*kinds, "secured"] if self.secured else kinds)
        return {"seed": self.seed, "scenario": scenario, **protocol}

    @property
    def must_succeed(self) -> bool:
        """True if no session may fail with this plan."""
        # A leader can return some of these error codes after it has appended the batch.
        doubtful = LOSSES | {Fault.DENY, Fault.REFUSE}
        alone = len(self.cluster_faults) == 1 and not doubtful & set(self.faults)
        doubts = not alone or self.cluster_faults not in {
            (ClusterFault.NONE,),
            (ClusterFault.SMALL_MESSAGES,),
        }
        return self.patient and not (self.is_fragile and doubts)

    @property
    def is_fragile(self) -> bool:
        """True if a lost response can make a session fail.

        Batches that might be in the log are not resent with a new epoch. A broker checks the size
        before it checks for duplicates. After the limit was lowered, it therefore rejects a retry
        of a batch that it has appended.
        """
        return Fault.FORGET in self.faults or ClusterFault.SMALL_MESSAGES in self.cluster_faults

    def with_long_request_timeout(self) -> Plan:
        """Return the plan with a longer request timeout if a slow machine could make it fail."""
        if not (self.is_fragile and self.must_succeed):
            return self
        options = dict(self.options) | {"request.timeout.ms": "15000"}
        return replace(self, options=tuple(sorted(options.items())))

    @property
    def topic_may_be_deleted(self) -> bool:
        """True if acknowledged records can be deleted with the topic."""
        return bool(set(_DELETING) & set(self.cluster_faults))


def draw(seed: int, *, quick: bool = False) -> Plan:
    """Return the plan for a seed. With `quick`, no broker is stopped."""
    random = Random(seed)
    cluster_faults = _cluster_faults(random, quick=quick)
    faults = random.choices([mix for mix, _ in _MIXES], [weight for _, weight in _MIXES])[0]
    patient = random.random() < 0.75 and not set(_DELETING) & set(cluster_faults)
    return Plan(
        seed=seed,
        cluster_faults=cluster_faults,
        faults=faults,
        rate=random.choice((0.02, 0.05, 0.1, 0.2)),
        partitions=random.choice((1, 2, 3, 6)),
        min_isr=random.choice((1, 2, 2)),
        sessions=random.choice((1, 2, 3, 4)),
        chunks=random.choice((10, 20, 40)),
        rows=random.choice((5, 30, 120)),
        value_size=random.choice((12, 60, 200)),
        pause_ms=random.choice((0, 5, 20)),
        partitioning=random.choice(
            (Partitioning.EXPLICIT, Partitioning.EXPLICIT, Partitioning.KEYED, Partitioning.STICKY)
        ),
        patient=patient,
        options=tuple(sorted(_options(random, patient=patient).items())),
        secured=seed >= _FIRST_SECURED and Random(f"{seed}/secured").random() < _SECURED,
    ).with_long_request_timeout()


def _cluster_faults(random: Random, *, quick: bool) -> tuple[ClusterFault, ...]:
    weights = {fault: _WEIGHTS[fault] for fault in _QUICK} if quick else _WEIGHTS
    count = random.choice((1, 1, 1, 2))
    drawn = random.choices(list(weights), list(weights.values()), k=count)
    some = dict.fromkeys(fault for fault in drawn if fault is not ClusterFault.NONE)
    return tuple(sorted(some, key=_LAST.index)) if some else (ClusterFault.NONE,)


def _options(random: Random, *, patient: bool) -> dict[str, str]:
    request_timeout = random.choice((600, 1000, 1500)) if patient else random.choice((300, 600))
    linger = random.choice((0, 1, 5, 20))
    delivery = PATIENT_MS if patient else random.choice((900, 1500, 2500))
    return {
        "linger.ms": str(linger),
        "batch.size": str(random.choice((300, 1000, 4000, 16384))),
        "buffer.memory": str(random.choice((65_536, 262_144, 4_194_304))),
        "compression.type": random.choice(("none", "none", "gzip", "snappy", "lz4", "zstd")),
        "max.in.flight.requests.per.connection": str(random.choice((1, 2, 5, 5, 5))),
        "request.timeout.ms": str(request_timeout),
        "delivery.timeout.ms": str(delivery),
        "max.block.ms": str(30_000 if patient else 4_000),
        "retry.backoff.ms": str(random.choice((10, 50, 100))),
        "retry.backoff.max.ms": str(random.choice((100, 400))),
        "reconnect.backoff.ms": str(random.choice((10, 50))),
        "reconnect.backoff.max.ms": "300",
        "socket.connection.setup.timeout.ms": "1000",
        "connections.max.idle.ms": str(random.choice((540_000, 540_000, 300))),
        "allow.auto.create.topics": "false",
    }
