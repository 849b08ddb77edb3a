"""Rate-limited log messages about lasting outages.

A message names the records that wait, the next step of the client, and later the end of the outage.
To keep the log readable, each outage is logged at most once per `INTERVAL` seconds, and all outages
together at most `MOST` times per `INTERVAL`: a whole cluster may be down, and every task logs it.
The level is always WARNING, even for the end of an outage, because Spark's Python workers have no
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
"""Seconds without the response to a request after which a broker is logged as not responding."""


@dataclass(slots=True)
class Outage:
    """An outage since `since`, observed `times` times; `logged`: it was logged at least once."""

    since: float
    times: int = 0
    logged: bool = False


@dataclass(slots=True)
class Outages:
    """Current outages by name, and the rate limit of their log lines; times in seconds of a clock.

    It does no I/O: the caller logs.
    """

    omitted: int = 0
    """Log lines dropped by the rate limit since `omitted_note` last reported them."""
    _open: dict[str, Outage] = field(default_factory=dict)
    _logged_at: dict[str, float] = field(default_factory=dict)
    _lines: list[float] = field(default_factory=list)

    def observe(self, what: str, now: float, patience: float = 0.0) -> Outage | None:
        """Record a failure; return the outage if it should be logged now.

        `patience`: seconds that the outage must have lasted before it is logged.
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
        """Return True if there is an outage."""
        return bool(self._open)

    def end(self, what: str) -> Outage | None:
        """Record a recovery; return the outage that has ended, if it was logged."""
        outage = self._open.pop(what, None)
        return outage if outage is not None and outage.logged else None

    def omitted_note(self) -> str:
        """Return the number of lines dropped since the last call, as the end of a log line."""
        count, self.omitted = self.omitted, 0
        return f" ({plural(count, 'line')} about others left out)" if count else ""


class OutageLog:
    """Logs outages of brokers.

    A bootstrap server and the broker at the same address are separate: only records that need
    metadata wait for a bootstrap server.
    """

    def __init__(self) -> None:
        self.backlog: Callable[[int, float], str] = no_backlog
        """Returns a sentence about the records that wait for a broker (id, time now)."""
        self._outages = Outages()

    def failed(
        self,
        broker: BrokerConnection,
        reason: str,
        lost: Sequence[InFlightRequest],
        delay: float,
        now: float,
    ) -> None:
        """Log a failed connection or attempt; the next attempt follows in `delay` seconds."""
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
        """Log after `SILENCE` seconds that a broker has not answered a request sent at `oldest`."""
        if now - oldest < SILENCE:
            return
        if self._outages.observe(_silence(broker), now) is None:
            return
        waiting = plural(len(broker.connection.in_flight), "request")
        what = f"no answer for {now - oldest:.1f} s, {waiting} under way"
        plan = f"the connection is given up after request.timeout.ms = {patience * 1000:.0f}"
        self._say(broker, f"{what}; {plan}", now)

    def throttled(self, broker: BrokerConnection, seconds: float, now: float) -> None:
        """Log throttling by a broker once it has lasted for `SILENCE` seconds."""
        what = f"{_key(broker)} throttled"
        if now - broker.throttled_until > SILENCE:
            self._outages.end(what)  # An earlier period of throttling is over.
        if self._outages.observe(what, now, SILENCE) is not None:
            _LOG.warning(
                "%s: a quota throttles client.id %s or its user: pause of %.1f s%s",
                _name(broker),
                broker.client_id,
                seconds,
                self._outages.omitted_note(),
            )

    def answered(self, broker: BrokerConnection, now: float) -> None:
        """End the outages of a broker that has connected or answered."""
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
    """Return "": no records wait while no session is attached."""
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
