"""Collect the failures of all brokers, and decide when retrying is pointless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.client.channel.diagnosis import FailureKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.common import errors
    from spark_kafka_sink.kafka.client.channel.diagnosis import Diagnosis

REPEATED = 3
"""Number of repeated failures after which a failure is not considered a coincidence."""
LASTING_S = 4.0
"""Seconds after which failures are not considered temporary. Restarts take less time."""


@dataclass(slots=True)
class _Streak:
    """Failures of one address since its last success."""

    latest: Diagnosis
    times: int = 0
    rejections: int = 0
    since: float | None = None
    """Time of the first rejection or mismatch."""


class ConnectionFailures:
    """Failures since the last success, by address; `fatal` is set once retrying is pointless.

    Some failures are rejections (`FailureKind.REJECTED`), such as a wrong password or an untrusted
    certificate. Whether a rejection is fatal depends on earlier attempts:

    - No broker has accepted the client yet: a rejection is fatal once every bootstrap server has
      rejected the client. It is also fatal after `REPEATED` rejections if each bootstrap server has
      failed once or the rejections have lasted for `LASTING_S`. This way, a job does not fail
      because one of several servers has an expired certificate.
    - A broker has accepted the client: while a job runs, a password might be changed on one broker
      after another, or a token file might be replaced. Therefore, the client reloads the secrets
      and retries. The rejection is fatal once a broker has rejected the client `REPEATED` times
      over at least `LASTING_S`.

    Other failures only suggest that the port uses a different protocol (`FailureKind.MISMATCH`).
    Before any broker has accepted the client, they are fatal once each bootstrap server has failed
    `REPEATED` times and such failures have lasted for `LASTING_S`. Afterwards they indicate a
    restarting broker, and are never fatal.

    Used only by the sender thread, but any thread can copy `reasons`. Source:
    ``NetworkClient.processDisconnection``, where the first rejection is fatal.
    """

    def __init__(self, bootstrap_servers: Iterable[str]) -> None:
        self.reasons: dict[str, str] = {}
        """The reason for the latest failure by address; removed after a success."""
        self.fatal: errors.KafkaProdError | None = None
        """The fatal error, after which retrying is pointless, or None."""
        self._bootstrap_servers = frozenset(bootstrap_servers)
        self._streaks: dict[str, _Streak] = {}
        self.is_accepted = False
        """True once a broker has accepted the client."""

    def record_success(self, address: str) -> None:
        """Record that a broker has accepted the client's login or has responded to a request."""
        self.is_accepted = True
        self.reasons.pop(address, None)
        self._streaks.pop(address, None)

    def record_failure(self, address: str, diagnosis: Diagnosis, now: float) -> None:
        """Record a lost connection or a failed attempt."""
        self.reasons[address] = diagnosis.reason
        streak = self._streaks.setdefault(address, _Streak(diagnosis))
        streak.latest = diagnosis
        streak.times += 1
        streak.rejections += diagnosis.kind is FailureKind.REJECTED
        if diagnosis.kind is FailureKind.TEMPORARY:
            return
        if streak.since is None:
            streak.since = now
        if self.fatal is None and self._is_fatal(streak, now):
            self.fatal = diagnosis.error

    def clear(self) -> None:
        """Forget the fatal error and what led to it, so that the client connects again."""
        self.fatal = None
        self._streaks.clear()

    def diagnosis(self, address: str) -> Diagnosis | None:
        """Return why the latest attempt at an address failed; None after a success."""
        streak = self._streaks.get(address)
        return None if streak is None else streak.latest

    def _is_fatal(self, streak: _Streak, now: float) -> bool:
        is_old = streak.since is not None and now - streak.since >= LASTING_S
        if self.is_accepted:
            return is_old and streak.rejections >= REPEATED
        if is_old and self._all_have_failed(REPEATED):
            return True
        if streak.latest.kind is not FailureKind.REJECTED:
            return False
        rejections = sum(streak.rejections for streak in self._streaks.values())
        servers = [self._streaks.get(address) for address in self._bootstrap_servers]
        is_rejected_by_all = all(
            streak is not None and streak.latest.kind is FailureKind.REJECTED for streak in servers
        )
        return is_rejected_by_all or (
            rejections >= REPEATED and (is_old or self._all_have_failed(1))
        )

    def _all_have_failed(self, times: int) -> bool:
        """Return True if every bootstrap server has failed at least `times` times."""
        servers = [self._streaks.get(address) for address in self._bootstrap_servers]
        return all(streak is not None and streak.times >= times for streak in servers)
