"""Keep the cluster snapshot up to date without blocking the sender.

Which right a refused topic lacks: to be seen, or to be created.

To a Metadata request that may create topics, brokers answer TOPIC_AUTHORIZATION_FAILED for both.
One that may not create them tells: a topic that may be seen and is not there is unknown. Source:
``KafkaApis.handleTopicMetadataRequest``.

When to forget all brokers and begin anew from the bootstrap servers. Pure: the clock comes in.

Source: ``NetworkClient.DefaultMetadataUpdater``, KIP-899 (no broker can be asked any more) and
KIP-1102 (metadata fails for too long, or a broker asks for it).

Keeping the cluster snapshot fresh without ever blocking the sender.

Metadata is asked for when a topic is new, when an error says that it is stale, and every
metadata.max.age.ms. Source: ``Metadata``, ``DefaultMetadataUpdater``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, is_dataclass, replace
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from spark_kafka_sink.client.backoff import full_jitter
from spark_kafka_sink.client.cluster import Cluster, Node
from spark_kafka_sink.client.outages import Outages
from spark_kafka_sink.client.request import Request
from spark_kafka_sink.common.debug_log import Debug
from spark_kafka_sink.common.errors import DeliveryError, ProtocolError
from spark_kafka_sink.config.enums import RecoveryStrategy
from spark_kafka_sink.protocol.codec import encode
from spark_kafka_sink.protocol.error_codes import TRANSIENT_TOPIC_ERRORS, ErrorCode
from spark_kafka_sink.protocol.versions import ApiKey, make_request, request_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from random import Random

    from spark_kafka_sink.client.cluster import TopicInfo, TopicPartition
    from spark_kafka_sink.client.network import Network
    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.config.model import ProducerConfig


_DENIED = int(ErrorCode.topic_authorization_failed)
_UNKNOWN = int(ErrorCode.unknown_topic_or_partition)


@dataclass(slots=True)
class TopicDenials:
    """The refused topics of a session; sender thread only, but `uncreatable` may be read by any."""

    uncreatable: frozenset[str] = frozenset()
    """Topics that are not there and may not be created."""
    unclear: frozenset[str] = frozenset()
    """Refused topics that the next request, which may not create any, is to tell of."""
    _hidden: frozenset[str] = frozenset()
    """Topics that may not be seen."""

    def sort(self, told: Cluster, *, may_create: bool) -> Cluster:
        """Take the answer to a request; the cluster without the refusals that are still unclear."""
        denied = frozenset(name for name, code in told.errors.items() if code == _DENIED)
        if may_create:
            self.uncreatable, self._hidden = self.uncreatable & denied, self._hidden & denied
            self.unclear = denied - self.uncreatable - self._hidden
            return _with_errors(told, dict.fromkeys(self.unclear))
        absent = {name for name in self.unclear if told.errors.get(name) == _UNKNOWN}
        self.uncreatable |= absent
        self._hidden |= denied
        self.unclear = frozenset()
        return _with_errors(told, dict.fromkeys(absent, _DENIED))


def _with_errors(cluster: Cluster, changed: dict[str, int | None]) -> Cluster:
    """The cluster with other errors for some topics, None for no error."""
    if not changed:
        return cluster
    merged = {**cluster.errors, **changed}
    errors = {name: code for name, code in merged.items() if code is not None}
    return replace(cluster, errors=MappingProxyType(errors))


PATIENCE = 5.0
"""Seconds for which every answer must say so: a broker that lags behind may have the old topic."""


@dataclass(slots=True)
class RemovedPartitions:
    """The most partitions that each topic had, held against what the metadata has now.

    A topic that has the same id and fewer partitions has been told by a broker that lags behind;
    so may one that has no id.
    """

    _known: dict[str, TopicInfo] = field(default_factory=dict)
    """The most partitions that each topic had."""
    _since: dict[str, float] = field(default_factory=dict)
    """When a topic was first told of that has fewer, in seconds of a clock."""
    _remaining: dict[str, int] = field(default_factory=dict)
    """How many partitions it has."""

    def __bool__(self) -> bool:
        """Whether there may be any."""
        return bool(self._since)

    def update(self, cluster: Cluster, now: float) -> None:
        """Take a new snapshot in."""
        for name, told in cluster.topics.items():
            known = self._known.get(name)
            if known is None or told.partition_count >= known.partition_count:
                self._known[name] = told
            elif known.is_other(told.topic_id):
                self._since.setdefault(name, now)
                self._remaining[name] = told.partition_count
                continue
            self._since.pop(name, None)

    def remaining(self, topic: str, partition: int, now: float) -> int | None:
        """How many partitions the topic has now, where this one is gone for good."""
        since = self._since.get(topic)
        if since is None or now - since < PATIENCE or partition < self._remaining[topic]:
            return None
        return self._remaining[topic]


@dataclass(slots=True)
class Rebootstrap:
    """`trigger`: seconds without an answer to any Metadata request; None: never begin anew."""

    trigger: float | None
    _since: float | None = None
    _required: bool = False

    def asking(self, now: float) -> None:
        """Metadata is due, and a broker is asked or looked for."""
        if self._since is None:
            self._since = now

    def answered(self) -> None:
        """A broker has told the metadata."""
        self._since = None

    def require(self) -> None:
        """A broker says that this client does not belong to it."""
        self._required = True

    def is_due(self, now: float) -> bool:
        """Whether to begin anew; from then on the time counts from `now` again."""
        overdue = self._since is not None and now - self._since >= (self.trigger or 0.0)
        if self.trigger is None or not (self._required or overdue):
            return False
        self._since, self._required = now, False
        return True


_LOG = logging.getLogger(__name__)

_BLOCKED_WAIT = 0.05
"""Seconds between two looks for a broker that can be asked."""

_PATIENCE = 0.2
"""Seconds that one broker may take to connect before another one is tried beside it."""

_LEADERLESS_PATIENCE = 5.0
"""Seconds without a leader before it is worth a line on the log: an election takes less."""

_KEPT = 1.0
"""Seconds for which a session may go by what an earlier one knew of a topic."""

_MOST_NAMED = 10

_BOOTSTRAP = "bootstrap servers"
"""An outage's name, which is no topic's."""


class Metadata:
    """The snapshot, the topics it must cover, and when it is due again."""

    def __init__(self, config: ProducerConfig, random: Random, debug: Debug | None = None) -> None:
        self._config = config
        self._random = random
        self._debug = debug or Debug()
        self._may_rebootstrap = config.metadata_recovery_strategy is RecoveryStrategy.REBOOTSTRAP
        self._bootstrap = [
            Node(-1 - index, *_split(server))
            for index, server in enumerate(config.bootstrap_servers)
        ]
        random.shuffle(self._bootstrap)
        self._lock = Lock()

        # Guarded by the lock to be changed; replaced as a whole, so any thread may read it.
        self._wanted: frozenset[str] = frozenset()
        self._assumed: tuple[tuple[str, int], ...] = ()
        """Topics that the session takes for there, with their partitions."""

        # Changed by the sender thread only; replaced as a whole, so any thread may read them.
        self.cluster = Cluster()
        self.updates = 0
        """Responses taken so far."""
        self.updated_at: float | None = None
        """When the latest came, in seconds of the monotonic clock."""
        self.requests = 0
        """Requests sent so far."""
        self.answered = 0
        """The number of the latest request whose response was taken."""

        # Set by any thread; cleared by the sender's when it asks, as an earlier request may have
        # been answered before there was a reason to ask again.
        self._refresh_requested = False

        self.denials = TopicDenials()
        """What is known of the topics that brokers refuse; changed in place, before `cluster`."""

        # Sender thread only.
        self.removed_partitions = RemovedPartitions()
        """Partitions that topics had in this session and have no more."""
        self.failure: DeliveryError | None = None
        """Why nothing may be sent any more with what is known."""
        self._topics: frozenset[str] = frozenset()
        """What the next request is about."""
        self._requested: frozenset[str] = frozenset()
        """What the latest request was about."""
        self._asked_to_create = False
        """Whether the latest request allowed brokers to create topics."""
        self._due_at = 0.0
        self._in_flight = False
        self._failures = 0
        self._blocked = False
        self._outages = Outages()
        trigger = config.metadata_recovery_rebootstrap_trigger_ms / 1000
        self._rebootstrap_timer = Rebootstrap(trigger if self._may_rebootstrap else None)

    def want(self, topics: Iterable[str]) -> None:
        """From now on the snapshot must cover these topics too; any thread may call this.

        The caller wakes the sender thread, which asks for them in its next turn. The topics of a
        session that has ended are not asked for any more: to ask is to create a topic, where
        brokers do that, also one that somebody has just deleted. What is known of them may still
        serve the next session until the next answer comes.
        """
        with self._lock:
            self._wanted = self._wanted.union(topics)

    def assume(self, topics: tuple[tuple[str, int], ...]) -> None:
        """Until the session ends, take topics that don't exist for such with these partitions.

        For a session that sends nothing to them; called before it wants any topic.
        """
        with self._lock:
            self._assumed = topics

    @property
    def wanted(self) -> frozenset[str]:
        """The topics that the session writes to, as far as it has said so; any thread."""
        return self._wanted

    def _take_wanted(self) -> None:
        """Ask at once where a topic is wanted that is neither known nor asked for yet."""
        wanted = self._wanted
        if wanted is self._topics:
            return
        if any(name not in self.cluster.topics for name in wanted - self._topics):
            self._due_at = 0.0
        self._topics = wanted

    def end_session(self, now: float) -> None:
        """No session wants any topic now; what was wrong with one may not be so any more.

        What was learned a while ago is forgotten: a topic may have been deleted since, and made
        anew with fewer partitions.
        """
        with self._lock:
            self._wanted = self._topics = frozenset()
            assumed, self._assumed = dict(self._assumed), ()
        is_fresh = self.updated_at is not None and now - self.updated_at < _KEPT
        known = self.cluster.topics.keys() - assumed.keys() if is_fresh else ()
        self.cluster = self.cluster.only(known)
        self.denials = TopicDenials()
        self.removed_partitions = RemovedPartitions()
        self.removed_partitions.update(self.cluster, now)

    def refresh(self) -> None:
        """Something says that the snapshot is stale: ask again, after a back-off; any thread."""
        self._refresh_requested = True

    def maybe_send(self, network: Network, now: float) -> None:
        """Send the next request when it is due and a broker is ready."""
        self._take_wanted()
        if self._rebootstrap_timer.is_due(now):
            self._rebootstrap(network, now)
        if self._refresh_requested and not self._failures:
            self._retry_later(now)
        if self._in_flight or now < self._due_at:
            return
        self._rebootstrap_timer.asking(now)
        node = self.least_loaded_node(network, now)
        self._blocked = node is None
        if node is None:
            self.connect_any(network, now)
            return
        self._in_flight, self._requested = True, self._topics
        self._asked_to_create = self._config.allow_auto_create_topics and not self.denials.unclear
        self._refresh_requested = False
        self.requests += 1
        correlation = network.send(node.node_id, self._request(network, node), now)
        if (log_event := self._debug.metadata) is not None:
            topics = ",".join(sorted(self._topics))
            log_event("ask", broker=node.node_id, correlation=correlation, topics=topics)

    def learn_leader(self, partition: TopicPartition, leader: int, epoch: int) -> None:
        """A Produce response names a partition's leader (KIP-951); used where that is news."""
        self.cluster = self.cluster.with_leader(*partition, leader, epoch)

    def learn_nodes(self, nodes: Mapping[int, Node]) -> None:
        """A Produce response tells where brokers are (KIP-951)."""
        self.cluster = self.cluster.with_nodes(nodes)

    def least_loaded_node(self, network: Network, now: float) -> Node | None:
        """A ready broker for a request that any can serve, with the fewest requests in flight."""
        ready = [node for node in network.connected() if network.is_ready(node, now)]
        if not ready:
            return None
        return min(ready, key=lambda node: network.in_flight(node.node_id))

    def connect_any(self, network: Network, now: float) -> None:
        """Where no broker is ready, connect to one: tried least first, known before bootstrap.

        If one takes too long, another is tried in parallel: an address that never answers must not
        use up all of max.block.ms.
        """
        if network.connecting(now - _PATIENCE):
            return
        known = list(self.cluster.nodes.values())
        self._random.shuffle(known)
        others = self._bootstrap if self._may_rebootstrap or not known else []
        able = [node for node in known + others if network.can_connect(node, now)]
        if able:
            network.connect(min(able, key=network.attempts), now)

    def wait(self, now: float) -> float:
        """Seconds until `maybe_send` has something to do; new connections wake the loop anyway."""
        if self._in_flight:
            return 1.0
        return _BLOCKED_WAIT if self._blocked else max(0.0, self._due_at - now)

    def handle_response(self, completion: Completion, now: float) -> None:
        """Use the answer to a request of `maybe_send`, or plan the next attempt."""
        self._in_flight = False
        response = completion.response
        if response is None or not self._is_good(response):
            self._retry_later(now)
            return
        try:
            told = self.cluster.updated(response)
        except ProtocolError as error:
            _LOG.warning("%s told metadata that makes no sense: %s", completion.node, error)
            self._retry_later(now)
            return
        self._rebootstrap_timer.answered()
        self._outages.end(_BOOTSTRAP)
        told = self.denials.sort(told.only(self._topics), may_create=self._asked_to_create)
        before, self.cluster = self.cluster, told.assuming(self._assumed)
        self.updates, self.updated_at = self.updates + 1, now
        self.answered = self.requests
        self.removed_partitions.update(self.cluster, now)
        self._log_update(completion, before)
        self._log_leaderless(now)
        pending = any(self._is_pending(topic) for topic in self._topics)
        if pending:
            self._retry_later(now)
        else:
            self._failures = 0
            self._due_at = now + self._config.metadata_max_age_ms / 1000
        if self.denials.unclear or not self._topics <= self._requested:
            self._due_at = now  # what is new since must not wait for what is missing

    def _is_good(self, response: Any) -> bool:
        """Whether an answer is one, and from the cluster that the others came from."""
        if code := int(getattr(response, "error_code", 0)):
            if code == ErrorCode.rebootstrap_required:
                self._rebootstrap_timer.require()
            return False
        ours, theirs = self.cluster.cluster_id, getattr(response, "cluster_id", None)
        if ours is not None and theirs not in {None, ours}:
            self.failure = DeliveryError(
                f"the brokers belong to cluster {theirs} now, and belonged to cluster {ours} "
                "before: what is sent under the old producer id may be taken for a repetition",
                hint="run the write again, if the records are meant for the cluster that the "
                "bootstrap servers lead to now",
            )
            return False
        # A broker that is just starting may know of none: what was known before is better.
        return len(response.brokers) > 0

    def _rebootstrap(self, network: Network, now: float) -> None:
        """Forget the brokers: only the bootstrap servers are left to be asked."""
        if self._outages.observe(_BOOTSTRAP, now) is not None:
            _LOG.warning("no known broker tells the metadata: asking the bootstrap servers anew")
        self.cluster = self.cluster.without_nodes()
        network.forget_all("the bootstrap servers are asked anew", now)

    def _log_update(self, completion: Completion, before: Cluster) -> None:
        after = self.cluster
        if (log_event := self._debug.metadata) is not None:
            log_event(
                "learn",
                broker=completion.node.node_id,
                correlation=completion.correlation_id,
                brokers=",".join(f"{node.node_id}@{node}" for node in after.nodes.values()),
                topics=len(after.topics),
                errors=dict(after.errors),
            )
        if (log_event := self._debug.topic) is not None:
            for name, info in after.topics.items():
                if before.topics.get(name) != info:
                    log_event("topic", topic=name, id=info.topic_id, leaders=info.leaders)

    def _log_leaderless(self, now: float) -> None:
        """Say which partitions have been waiting for a leader for a while, and when that ends."""
        for topic in self._topics:
            lacking = self._leaderless(topic)
            if not lacking:
                if (outage := self._outages.end(topic)) is not None:
                    length = now - outage.since
                    _LOG.warning("topic %s: a leader everywhere again after %.1f s", topic, length)
                continue
            if (outage := self._outages.observe(topic, now, _LEADERLESS_PATIENCE)) is not None:
                _LOG.warning(
                    "topic %s: no leader for %.1f s for %d of %d partitions (%s): their records "
                    "wait for one until delivery.timeout.ms = %d is over; the brokers are asked "
                    "again and again%s",
                    topic,
                    now - outage.since,
                    len(lacking),
                    self.cluster.topics[topic].partition_count,
                    _first_few(lacking),
                    self._config.delivery_timeout_ms,
                    self._outages.omitted_note(),
                )

    def _leaderless(self, topic: str) -> list[int]:
        """Partitions without a leader, or with one that is not among the brokers."""
        info = self.cluster.topics.get(topic)
        nodes = self.cluster.nodes
        return [i for i, leader in enumerate(info.leaders if info else ()) if leader not in nodes]

    def _is_pending(self, topic: str) -> bool:
        return topic not in self.cluster.topics or bool(self._leaderless(topic))

    def _retry_later(self, now: float) -> None:
        self._due_at = now + self._back_off(self._failures)
        self._failures += 1

    def _back_off(self, attempt: int) -> float:
        config = self._config
        return full_jitter(
            attempt, config.retry_backoff_ms, config.retry_backoff_max_ms, self._random
        )

    def _request(self, network: Network, node: Node) -> Request:
        version = network.broker(node.node_id).connection.version(ApiKey.METADATA)
        payload = make_request(
            ApiKey.METADATA,
            version,
            topics=tuple(_topic_entry(version, name) for name in sorted(self._topics)),
            allow_auto_topic_creation=self._asked_to_create,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        return Request(api=ApiKey.METADATA, version=version, body=[encode(payload)], context=self)


def is_fatal(cluster: Cluster, topic: str) -> bool:
    """Whether a topic's latest error will not go away by waiting."""
    code = cluster.errors.get(topic, ErrorCode.none)
    return code != ErrorCode.none and code not in TRANSIENT_TOPIC_ERRORS


def _first_few(partitions: list[int]) -> str:
    named = ", ".join(str(partition) for partition in partitions[:_MOST_NAMED])
    return named if len(partitions) <= _MOST_NAMED else f"{named}, ..."


def _topic_entry(version: int, name: str) -> Any:
    """A topic of a MetadataRequest, whose class is nested in the request's own."""
    topics = request_type(ApiKey.METADATA, version).__dataclass_fields__["topics"]
    (nested, *_) = get_args(topics.type)
    kind: Any = next(arg for arg in (nested, *get_args(nested)) if is_dataclass(arg))
    with_id = {"topic_id": None} if "topic_id" in kind.__dataclass_fields__ else {}
    return kind(name=name, **with_id)


def _split(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host, int(port)
