"""Why brokers can't be reached, and when it makes no sense to try any longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.client.channel.diagnosis import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.client.channel.diagnosis import Diagnosis
    from spark_kafka_sink.common.errors import KafkaProdError

REPEATS = 3
"""Failures of one broker, or at the start refusals of all, after which it is no accident."""
SECONDS = 4.0
"""For which they have gone on: a broker restarts, or a password is being changed, in less."""


@dataclass(slots=True)
class _Streak:
    """Failures at one address since it last worked; `since`: the first refusal or mismatch."""

    latest: Diagnosis
    times: int = 0
    refusals: int = 0
    since: float | None = None


class ConnectionFailures:
    """What has failed since it last worked, by address; `fatal` once no attempt will help.

    Some failures are a broker's refusal (`Verdict.REFUSED`): a wrong password, a certificate that
    is not trusted. Whether one ends the client's work depends on what came before it:

    - No broker has accepted the client yet. A refusal is fatal once every bootstrap server has
      refused, or there were `REPEATS` refusals and each server has had its turn, or `SECONDS` for
      it: one of several whose certificate has expired does not stop a job.
    - Some broker has accepted it. A password may be changed while a job runs, on one broker after
      another, or a file with a token be replaced: the broker is tried again, with secrets that are
      read anew. It is fatal once one broker has refused `REPEATS` times, for `SECONDS`.

    Others only look as if the port spoke something else (`Verdict.MISMATCH`). They are fatal while
    no broker has accepted the client yet, once each bootstrap server has failed `REPEATS` times,
    and such failures have gone on for `SECONDS`. Later they are a broker that restarts.

    Sender thread only; any thread may copy `reasons`.
    Source: ``NetworkClient.processDisconnection``, where the first refusal is fatal at once.
    """

    def __init__(self, bootstrap_servers: Iterable[str]) -> None:
        self.reasons: dict[str, str] = {}
        """Why the latest attempt failed, by address, until one works there."""
        self.fatal: KafkaProdError | None = None
        """The failure after which there is nothing to wait for."""
        self._bootstrap_servers = frozenset(bootstrap_servers)
        self._streaks: dict[str, _Streak] = {}
        self.is_accepted = False
        """Whether a broker has accepted the client since it was made."""

    def worked(self, address: str) -> None:
        """A broker has accepted the client: it has logged in, or has an answer to a request."""
        self.is_accepted = True
        self.reasons.pop(address, None)
        self._streaks.pop(address, None)

    def failed(self, address: str, diagnosis: Diagnosis, now: float) -> None:
        """A connection broke, or could not be made."""
        self.reasons[address] = diagnosis.reason
        streak = self._streaks.setdefault(address, _Streak(diagnosis))
        streak.latest = diagnosis
        streak.times += 1
        streak.refusals += diagnosis.verdict is Verdict.REFUSED
        if diagnosis.verdict is Verdict.PASSING:
            return
        if streak.since is None:
            streak.since = now
        if self.fatal is None and self._is_fatal(streak, now):
            self.fatal = diagnosis.error

    def diagnosis(self, address: str) -> Diagnosis | None:
        """Why the latest attempt at an address failed; None once one has worked there."""
        streak = self._streaks.get(address)
        return None if streak is None else streak.latest

    def _is_fatal(self, streak: _Streak, now: float) -> bool:
        is_old = streak.since is not None and now - streak.since >= SECONDS
        if self.is_accepted:
            return is_old and streak.refusals >= REPEATS
        if is_old and self._have_failed(REPEATS):
            return True
        if streak.latest.verdict is not Verdict.REFUSED:
            return False
        refusals = sum(each.refusals for each in self._streaks.values())
        return self._refuse() or (refusals >= REPEATS and (is_old or self._have_failed(1)))

    def _refuse(self) -> bool:
        """Whether that is the last word of all bootstrap servers."""
        return all(
            address in self._streaks and self._streaks[address].latest.verdict is Verdict.REFUSED
            for address in self._bootstrap_servers
        )

    def _have_failed(self, times: int) -> bool:
        """Whether all bootstrap servers have."""
        return all(
            address in self._streaks and self._streaks[address].times >= times
            for address in self._bootstrap_servers
        )
