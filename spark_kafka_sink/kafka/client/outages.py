"""Rate-limited log messages about lasting outages.

A message describes the records that are waiting and the client's next action. The end of an outage
is also logged, except for throttling. Each outage is logged at most once per `LOG_INTERVAL_S`
seconds, and all outages together at most `MAX_LINES` times in this period, because an entire
cluster might be down for all tasks. The level
is always WARNING, even for the end of an outage: in Spark's Python workers, logging is not
configured, so lower levels are dropped. Used only by the sender thread.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
    from spark_kafka_sink.kafka.client.request import Completion

_LOG = logging.getLogger(__name__)

LOG_INTERVAL_S = 30.0
MAX_LINES = 10
_NO_RESPONSE_S = 10.0
"""Seconds without a response, or of throttling, after which they are logged."""


@dataclass(slots=True)
class Outage:
    """An outage, and how often it was observed."""

    since: float
    """Time when it was first observed."""
    times: int = 0
    """The number of times it was observed."""
    is_logged: bool = False
    """True if the outage has been logged."""


@dataclass(slots=True)
class Outages:
    """The current outages by name, and the rate limit of their log messages.

    Times are in seconds of the caller's clock. The caller logs the messages.
    """

    omitted: int = 0
    """Log messages dropped by the rate limit since the last call of `take_omitted_note`."""
    _open: dict[str, Outage] = field(default_factory=dict)
    _logged_at: dict[str, float] = field(default_factory=dict)
    _lines: list[float] = field(default_factory=list)

    def observe(self, outage_key: str, now: float, min_s: float = 0.0) -> Outage | None:
        """Record a failure; return the outage if it should be logged now.

        `min_s` is the minimum duration in seconds of an outage that is logged.
        """
        outage = self._open.setdefault(outage_key, Outage(now))
        outage.times += 1
        logged_at = self._logged_at.get(outage_key)
        if now - outage.since < min_s:
            return None
        if logged_at is not None and now - logged_at < LOG_INTERVAL_S:
            return None
        self._lines = [line_at for line_at in self._lines if now - line_at < LOG_INTERVAL_S]
        if len(self._lines) >= MAX_LINES:
            self.omitted += 1
            return None
        self._lines.append(now)
        self._logged_at[outage_key] = now
        outage.is_logged = True
        return outage

    def __bool__(self) -> bool:
        """Return True if there is an outage."""
        return bool(self._open)

    def end(self, outage_key: str) -> Outage | None:
        """Record a recovery; return the outage that has ended, if it was logged."""
        outage = self._open.pop(outage_key, None)
        return outage if outage is not None and outage.is_logged else None

    def take_omitted_note(self) -> str:
        """Return a text about the messages that were dropped since the last call, or "" if none."""
        count, self.omitted = self.omitted, 0
        return f" ({plural(count, 'line')} about other outages omitted)" if count else ""


class OutageLog:
    """Logs outages of brokers.

    A bootstrap server and the broker at the same address have separate outages, because only
    records that need metadata wait for a bootstrap server.
    """

    def __init__(self) -> None:
        self.backlog: Callable[[int, float], str] = no_backlog
        """Function that returns a text about waiting records. Arguments: node id, and time in
        seconds.
        """
        self._outages = Outages()

    def on_failed(
        self,
        broker: BrokerConnection,
        reason: str,
        lost: Sequence[Completion],
        delay: float,
        now: float,
    ) -> None:
        """Log a lost connection or a failed attempt. The next attempt follows after `delay` s."""
        outage = self._outages.observe(_outage_key(broker), now)
        if outage is None:
            return
        if lost:
            oldest = now - min(completion.sent_request.sent_at for completion in lost)
            text = f"the connection was lost with {plural(len(lost), 'request')} in flight, "
            text += f"the oldest for {oldest:.1f} s"
        elif outage.times == 1:
            text = "no connection"
        else:
            text = (
                f"no connection for {now - outage.since:.1f} s, {plural(outage.times, 'failure')}"
            )
        plan = f"retrying in {delay:.2f} s if needed"
        self._log_outage(broker, f"{text}: {reason}; {plan}", now)

    def on_unresponsive(
        self, broker: BrokerConnection, oldest: float, timeout: float, now: float
    ) -> None:
        """Log that the request sent at `oldest` has no response after `_NO_RESPONSE_S` seconds."""
        if now - oldest < _NO_RESPONSE_S:
            return
        if self._outages.observe(_no_response(broker), now) is None:
            return
        waiting = plural(len(broker.in_flight), "request")
        text = f"no response for {now - oldest:.1f} s, {waiting} in flight"
        plan = f"the connection will be closed after request.timeout.ms = {timeout * 1000:.0f}"
        self._log_outage(broker, f"{text}; {plan}", now)

    def on_throttled(self, broker: BrokerConnection, seconds: float, now: float) -> None:
        """Log throttling by a broker after it has lasted for `_NO_RESPONSE_S` seconds."""
        outage_key = f"{_outage_key(broker)} throttled"
        if now - broker.throttled_until > _NO_RESPONSE_S:
            self._outages.end(outage_key)  # A new throttling has started.
        if self._outages.observe(outage_key, now, _NO_RESPONSE_S) is not None:
            _LOG.warning(
                "%s: a quota throttles client.id %s or its user: pause of %.1f s%s",
                _broker_name(broker),
                broker.client_id,
                seconds,
                self._outages.take_omitted_note(),
            )

    def on_response(self, broker: BrokerConnection, now: float) -> None:
        """End the outages of a broker that has connected or responded."""
        if not self._outages:
            return
        unresponsive = self._outages.end(_no_response(broker))
        if (outage := self._outages.end(_outage_key(broker))) is not None:
            failures = plural(outage.times, "failure")
            length = now - outage.since
            _LOG.warning(
                "%s: reconnected after %.1f s and %s", _broker_name(broker), length, failures
            )
        elif unresponsive is not None:
            _LOG.warning("%s: responding again", _broker_name(broker))

    def _log_outage(self, broker: BrokerConnection, text: str, now: float) -> None:
        waiting = self.backlog(broker.node.node_id, now)
        _LOG.warning(
            "%s: %s%s%s", _broker_name(broker), text, waiting, self._outages.take_omitted_note()
        )


def no_backlog(_node_id: int, _now: float) -> str:
    """Return "", because no records wait while no session is attached."""
    return ""


def _outage_key(broker: BrokerConnection) -> str:
    return f"{broker.node.node_id} {broker.node}"


def _no_response(broker: BrokerConnection) -> str:
    return f"{_outage_key(broker)} no response"


def _broker_name(broker: BrokerConnection) -> str:
    node = broker.node
    prefix = "Kafka bootstrap server" if node.node_id < 0 else f"Kafka broker {node.node_id} at"
    if broker.attempts.address is None or broker.attempts.address[1][0] == node.host.strip("[]"):
        return f"{prefix} {node}"
    return f"{prefix} {node} ({broker.attempts.address[1][0]})"
