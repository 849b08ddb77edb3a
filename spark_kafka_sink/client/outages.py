"""Says on the log which broker is away, what waits for it and what comes next, and when it is back.

At WARNING all of it, the end too: what is less is lost where nobody has set up logging, as in
Spark's Python workers. Sender thread only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.client.outage_schedule import Troubles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.client.broker_connection import BrokerConnection
    from spark_kafka_sink.client.connection import InFlight

_LOG = logging.getLogger(__name__)

SILENCE = 10.0
"""Seconds without the answer to a request after which a broker is said to be silent."""


class OutageLog:
    """What the network has to say of its brokers.

    A bootstrap server and the broker at the same address are two: only for the latter does
    anything wait.
    """

    def __init__(self) -> None:
        self.backlog: Callable[[int, float], str] = _nothing
        """A sentence on what waits for a broker, by its id and the time now."""
        self._troubles = Troubles()

    def failed(
        self,
        link: BrokerConnection,
        reason: str,
        lost: Sequence[InFlight],
        delay: float,
        now: float,
    ) -> None:
        """A connection broke, or could not be made; the next attempt is `delay` seconds away."""
        trouble = self._troubles.meet(_key(link), now)
        if trouble is None:
            return
        if lost:
            oldest = now - min(flight.sent_at for flight in lost)
            what = f"the connection broke with {_count(len(lost), 'request')} under way, "
            what += f"the oldest for {oldest:.1f} s"
        elif trouble.times == 1:
            what = "no connection"
        else:
            what = f"no connection for {now - trouble.since:.1f} s, {trouble.times} failures"
        plan = f"connecting again in {delay:.2f} s, and until it works"
        self._say(link, f"{what}: {reason}; {plan}", now)

    def silent(self, link: BrokerConnection, oldest: float, patience: float, now: float) -> None:
        """A request that was sent at `oldest` has no answer yet, and may have none for a while."""
        if now - oldest < SILENCE:
            return
        if self._troubles.meet(_silence(link), now) is None:
            return
        waiting = _count(len(link.connection.in_flight), "request")
        what = f"no answer for {now - oldest:.1f} s, {waiting} under way"
        plan = f"the connection is given up after request.timeout.ms = {patience * 1000:.0f}"
        self._say(link, f"{what}; {plan}", now)

    def answered(self, link: BrokerConnection, now: float) -> None:
        """A broker has connected, or answered."""
        if not self._troubles:
            return
        silence = self._troubles.end(_silence(link))
        if (trouble := self._troubles.end(_key(link))) is not None:
            failures = _count(trouble.times, "failure")
            length = now - trouble.since
            _LOG.warning("%s: back after %.1f s and %s", _name(link), length, failures)
        elif silence is not None:
            _LOG.warning("%s: answers again", _name(link))

    def _say(self, link: BrokerConnection, text: str, now: float) -> None:
        waiting = self.backlog(link.node.node_id, now)
        _LOG.warning("%s: %s%s%s", _name(link), text, waiting, self._troubles.rest())


def _nothing(_node_id: int, _now: float) -> str:
    return ""


def _key(link: BrokerConnection) -> str:
    return f"{link.node.node_id} {link.node}"


def _silence(link: BrokerConnection) -> str:
    return f"{_key(link)} silent"


def _name(link: BrokerConnection) -> str:
    node = link.node
    what = "Kafka bootstrap server" if node.node_id < 0 else f"Kafka broker {node.node_id} at"
    if link.address is None or link.address[1][0] == node.host.strip("[]"):
        return f"{what} {node}"
    return f"{what} {node} ({link.address[1][0]})"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
