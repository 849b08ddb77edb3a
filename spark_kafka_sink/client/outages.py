"""Outages that last, and what the log says of them: what waits, what comes next, and the end.

To keep the log readable, each outage is logged at most once per `INTERVAL` seconds, and all of
them together in at most `MOST` lines: a whole cluster may be down, and every task logs it. The
level is always WARNING, also for the end of an outage, because Spark's Python workers have no
logging configured and drop lower levels. Sender thread only.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.request import InFlightRequest

_LOG = logging.getLogger(__name__)

INTERVAL = 30.0
MOST = 10
SILENCE = 10.0
"""Seconds without the answer to a request after which a broker is said to be silent."""


@dataclass(slots=True)
class Outage:
    """It lasts since `since` and was seen `times` times; `logged`: the log has spoken of it."""

    since: float
    times: int = 0
    logged: bool = False


@dataclass(slots=True)
class Outages:
    """Outages that last, by the name of what is away; pure, times in seconds of a clock."""

    omitted: int = 0
    """Lines that would have been one too many; whoever writes one may say so and set it back."""
    _open: dict[str, Outage] = field(default_factory=dict)
    _logged_at: dict[str, float] = field(default_factory=dict)
    _lines: list[float] = field(default_factory=list)

    def observe(self, what: str, now: float, patience: float = 0.0) -> Outage | None:
        """Note that something is wrong; the outage, if the log should speak of it now.

        `patience`: seconds that it must have lasted.
        """
        outage = self._open.setdefault(what, Outage(now))
        outage.times += 1
        logged_at = self._logged_at.get(what)
        if now - outage.since < patience:
            return None
        if logged_at is not None and now - logged_at < INTERVAL:
            return None
        self._lines = [at for at in self._lines if now - at < INTERVAL]
        if len(self._lines) >= MOST:
            self.omitted += 1
            return None
        self._lines.append(now)
        self._logged_at[what] = now
        outage.logged = True
        return outage

    def __bool__(self) -> bool:
        """Whether anything is wrong."""
        return bool(self._open)

    def end(self, what: str) -> Outage | None:
        """Note that all is well again; the outage that is over, if the log has spoken of it."""
        outage = self._open.pop(what, None)
        return outage if outage is not None and outage.logged else None

    def omitted_note(self) -> str:
        """How many lines were left out since this was last asked, as the end of a line."""
        count, self.omitted = self.omitted, 0
        return f" ({plural(count, 'line')} about others left out)" if count else ""


class OutageLog:
    """What the log says of brokers that are away.

    A bootstrap server and the broker at the same address are two: for the former only what needs
    the metadata waits.
    """

    def __init__(self) -> None:
        self.backlog: Callable[[int, float], str] = no_backlog
        """A sentence on what waits for a broker, by its id and the time now."""
        self._outages = Outages()

    def failed(
        self,
        broker: BrokerConnection,
        reason: str,
        lost: Sequence[InFlightRequest],
        delay: float,
        now: float,
    ) -> None:
        """A connection broke, or could not be made; the next attempt is `delay` seconds away."""
        outage = self._outages.observe(_key(broker), now)
        if outage is None:
            return
        if lost:
            oldest = now - min(flight.sent_at for flight in lost)
            what = f"the connection broke with {plural(len(lost), 'request')} under way, "
            what += f"the oldest for {oldest:.1f} s"
        elif outage.times == 1:
            what = "no connection"
        else:
            what = (
                f"no connection for {now - outage.since:.1f} s, {plural(outage.times, 'failure')}"
            )
        plan = f"connecting again in {delay:.2f} s, and as long as somebody waits for it"
        self._say(broker, f"{what}: {reason}; {plan}", now)

    def silent(self, broker: BrokerConnection, oldest: float, patience: float, now: float) -> None:
        """A request that was sent at `oldest` has no answer yet, and may have none for a while."""
        if now - oldest < SILENCE:
            return
        if self._outages.observe(_silence(broker), now) is None:
            return
        waiting = plural(len(broker.connection.in_flight), "request")
        what = f"no answer for {now - oldest:.1f} s, {waiting} under way"
        plan = f"the connection is given up after request.timeout.ms = {patience * 1000:.0f}"
        self._say(broker, f"{what}; {plan}", now)

    def throttled(self, broker: BrokerConnection, seconds: float, now: float) -> None:
        """A broker has asked for a pause; logged once this has gone on for `SILENCE`."""
        what = f"{_key(broker)} throttled"
        if now - broker.throttled_until > SILENCE:
            self._outages.end(what)  # an earlier throttling is over
        if self._outages.observe(what, now, SILENCE) is not None:
            _LOG.warning(
                "%s: a quota throttles client.id %s or its user: pause of %.1f s%s",
                _name(broker),
                broker.client_id,
                seconds,
                self._outages.omitted_note(),
            )

    def answered(self, broker: BrokerConnection, now: float) -> None:
        """A broker has connected, or answered."""
        if not self._outages:
            return
        silence = self._outages.end(_silence(broker))
        if (outage := self._outages.end(_key(broker))) is not None:
            failures = plural(outage.times, "failure")
            length = now - outage.since
            _LOG.warning("%s: back after %.1f s and %s", _name(broker), length, failures)
        elif silence is not None:
            _LOG.warning("%s: answers again", _name(broker))

    def _say(self, broker: BrokerConnection, text: str, now: float) -> None:
        waiting = self.backlog(broker.node.node_id, now)
        _LOG.warning("%s: %s%s%s", _name(broker), text, waiting, self._outages.omitted_note())


def no_backlog(_node_id: int, _now: float) -> str:
    """Nothing waits for a broker while no session is served."""
    return ""


def _key(broker: BrokerConnection) -> str:
    return f"{broker.node.node_id} {broker.node}"


def _silence(broker: BrokerConnection) -> str:
    return f"{_key(broker)} silent"


def _name(broker: BrokerConnection) -> str:
    node = broker.node
    what = "Kafka bootstrap server" if node.node_id < 0 else f"Kafka broker {node.node_id} at"
    if broker.address is None or broker.address[1][0] == node.host.strip("[]"):
        return f"{what} {node}"
    return f"{what} {node} ({broker.address[1][0]})"
