"""Update the cluster snapshot without blocking the sender.

`Metadata` sends a Metadata request when a topic is new, when an error shows that the snapshot is
stale, and every metadata.max.age.ms.

Source: ``Metadata``, ``NetworkClient.DefaultMetadataUpdater``.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.debug_log import DebugLog
from spark_kafka_sink.common.errors import DeliveryError, ProtocolError
from spark_kafka_sink.common.text import listed
from spark_kafka_sink.config.enums import RecoveryStrategy
from spark_kafka_sink.kafka.client.backoff import RetryTimer
from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot, Node
from spark_kafka_sink.kafka.client.outages import Outages
from spark_kafka_sink.kafka.client.rebootstrap_timer import RebootstrapTimer
from spark_kafka_sink.kafka.client.removed_partitions import RemovedPartitions
from spark_kafka_sink.kafka.client.request import Completion, Request
from spark_kafka_sink.kafka.client.topic_denials import TopicDenials
from spark_kafka_sink.kafka.protocol.error_codes import TRANSIENT_TOPIC_ERRORS, ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from spark_kafka_sink.config.client_config import ClientConfig
    from spark_kafka_sink.kafka.client.network_client import NetworkClient
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition


_LOG = logging.getLogger(__name__)
_BLOCKED_WAIT_S = 0.05
"""Seconds between two checks for an available broker."""
_PARALLEL_AFTER_S = 0.2
"""Seconds after which a second broker is tried in parallel if a connection attempt is pending."""
_LEADERLESS_LOG_S = 5.0
"""Seconds after which a missing leader is logged; an election takes less time."""
_MAX_REUSE_AGE_S = 1.0
"""Maximum age in seconds of topic metadata that the next session can reuse."""
_MAX_LISTED_PARTITIONS = 10
_BOOTSTRAP_OUTAGE = "bootstrap servers"
"""Name of an outage. No topic can have this name."""


class Metadata:
    """The cluster snapshot, the topics that it must contain, and the time of the next request."""

    def __init__(self, config: ClientConfig, random: Random, debug: DebugLog | None = None) -> None:
        self._config = config
        self._random = random
        self._debug = debug or DebugLog()
        self._may_rebootstrap = config.metadata_recovery_strategy is RecoveryStrategy.REBOOTSTRAP
        self._bootstrap = [
            Node(-1 - index, *_split_host_port(server))
            for index, server in enumerate(config.bootstrap_servers)
        ]
        random.shuffle(self._bootstrap)
        self._lock = Lock()
        """Guards the replacement of `session_topics` and `_assumed` by any thread."""

        # Replaced as a whole under the lock, so any thread can read them without the lock.
        self.session_topics: frozenset[str] = frozenset()
        """The topics passed to `add_topics` in this session."""
        self._assumed: tuple[tuple[str, int], ...] = ()
        """Topics that the session assumes to exist, with their partition counts."""

        # Only the sender thread replaces these, always as a whole, so any thread can read them.
        self.cluster = ClusterSnapshot()
        self.updates = 0
        """Number of responses processed so far."""
        self.updated_at: float | None = None
        """Time of the latest response, in seconds of the monotonic clock."""
        self.sent_requests = 0
        """Number of requests sent so far."""
        self.answered_requests = 0
        """Value of `sent_requests` when the latest response was processed."""

        # Any thread can set this flag. The sender thread clears it when it sends a request. A
        # response does not: its request might have been sent before the flag was set.
        self._refresh_requested = False

        self.denials = TopicDenials()
        """The unauthorized topics; updated before `cluster` is replaced."""

        # Only the sender thread uses these.
        self.removed_partitions = RemovedPartitions()
        """Detects partitions that were removed during this session."""
        self.failure: DeliveryError | None = None
        """The error to raise if the brokers now belong to a different cluster, or None."""
        self._topics: frozenset[str] = frozenset()
        """Topics of the next request."""
        self._requested: frozenset[str] = frozenset()
        """Topics of the latest request."""
        self._may_create = False
        """True if the latest request allowed brokers to create topics."""
        self._retry = RetryTimer(config, random)
        """The time of the next request, which is also scheduled without a failure."""
        self._in_flight = False
        self._blocked = False
        self._outages = Outages()
        self._rebootstrap_timer = RebootstrapTimer(
            config.metadata_recovery_rebootstrap_trigger_ms / 1000
            if self._may_rebootstrap
            else None
        )

    def add_topics(self, topics: Iterable[str]) -> None:
        """Add topics that the snapshot must contain; any thread can call this.

        The caller must wake the sender thread, which requests the topics in its next iteration.
        Topics of earlier sessions are not requested: if brokers create topics automatically, a
        request would recreate a topic that was just deleted. The next session can use their known
        metadata until the next response.
        """
        with self._lock:
            self.session_topics = self.session_topics.union(topics)

    def assume(self, topics: tuple[tuple[str, int], ...]) -> None:
        """Assume until the session ends that missing topics exist with these partition counts.

        A dry run, which does not send records, calls this before `add_topics`.
        """
        with self._lock:
            self._assumed = topics

    def end_session(self, now: float) -> None:
        """Reset `session_topics` and their errors at the end of a session.

        Topic metadata older than `_MAX_REUSE_AGE_S` is dropped, because topics might have been
        deleted since then and recreated with fewer partitions.
        """
        with self._lock:
            self.session_topics = frozenset()
            assumed, self._assumed = dict(self._assumed), ()
        self._topics = self.session_topics
        is_fresh = self.updated_at is not None and now - self.updated_at < _MAX_REUSE_AGE_S
        kept = self.cluster.topics.keys() - assumed.keys() if is_fresh else ()
        self.cluster = self.cluster.only(kept)
        self.denials = TopicDenials()
        self.removed_partitions = RemovedPartitions()
        self.removed_partitions.update(self.cluster, now)

    def request_refresh(self) -> None:
        """Request a refresh of a stale snapshot after a backoff. Any thread can call this."""
        self._refresh_requested = True

    def maybe_send(self, network: NetworkClient, now: float) -> None:
        """Send the next request if it is due and a broker is ready."""
        self._schedule_new_topics()
        if self._rebootstrap_timer.is_due(now):
            self._rebootstrap_timer.restart_timer(now)
            self._rebootstrap(network, now)
        if self._refresh_requested and not self._retry.is_backing_off:
            self._retry.back_off(now)
        if self._in_flight or now < self._retry.due_at:
            return
        self._rebootstrap_timer.start_timer(now)
        node = self.any_node(network, now)
        self._blocked = node is None
        if node is None:
            return
        self._in_flight = True
        self._requested = self._topics
        self._may_create = self._config.allow_auto_create_topics and not self.denials.unclear
        self._refresh_requested = False
        self.sent_requests += 1
        correlation_id = network.send(node.node_id, self._metadata_request(network, node), now)
        if (log_event := self._debug.metadata) is not None:
            topics = ",".join(sorted(self._topics))
            log_event("request", broker=node.node_id, correlation=correlation_id, topics=topics)

    def learn_leader(self, topic_partition: TopicPartition, leader: int, epoch: int) -> None:
        """Store a partition's leader from a Produce response (KIP-951) if its epoch is newer."""
        self.cluster = self.cluster.with_leader(*topic_partition, leader, epoch)

    def learn_nodes(self, nodes: Sequence[tuple[int, str, int]]) -> None:
        """Store the broker ids and addresses from a Produce response (KIP-951)."""
        if nodes:
            self.cluster = self.cluster.with_nodes(Node(*node) for node in nodes)

    def any_node(self, network: NetworkClient, now: float) -> Node | None:
        """Return the ready broker with the fewest requests in flight, or connect to a broker."""
        node = self.least_loaded_node(network, now)
        if node is None:
            self.connect_any(network, now)
        return node

    def least_loaded_node(self, network: NetworkClient, now: float) -> Node | None:
        """Return the ready broker with the fewest requests in flight, or None."""
        ready = [node for node in network.connected() if network.is_ready(node, now)]
        if not ready:
            return None
        return min(ready, key=lambda node: network.in_flight(node.node_id))

    def connect_any(self, network: NetworkClient, now: float) -> None:
        """Connect to the broker with the fewest failures, preferably not a bootstrap server.

        If the attempt takes too long, a second broker is tried in parallel, so that an address that
        never responds does not use up max.block.ms.
        """
        if network.is_connecting(now - _PARALLEL_AFTER_S):
            return
        brokers = list(self.cluster.nodes.values())
        self._random.shuffle(brokers)
        bootstrap = self._bootstrap if self._may_rebootstrap or not brokers else []
        able = [node for node in brokers + bootstrap if network.can_connect(node, now)]
        if able:
            network.connect(min(able, key=network.failed_attempts), now)

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until `maybe_send` must be called, unless a connection opens."""
        if self._in_flight:
            return 1.0
        return _BLOCKED_WAIT_S if self._blocked else max(0.0, self._retry.due_at - now)

    def handle_response(self, completion: Completion, now: float) -> None:
        """Process the response to a request of `maybe_send`, or schedule a retry."""
        self._in_flight = False
        response = completion.response
        if response is None or not self._accept(response):
            self._retry.back_off(now)
            return
        try:
            updated = self.cluster.updated(response)
        except ProtocolError as error:
            _LOG.warning("%s returned invalid metadata: %s", completion.node, error)
            self._retry.back_off(now)
            return
        self._rebootstrap_timer.stop_timer()
        self._outages.end(_BOOTSTRAP_OUTAGE)
        updated = self.denials.classify(updated.only(self._topics), may_create=self._may_create)
        before, self.cluster = self.cluster, updated.assuming(self._assumed)
        self.updates, self.updated_at = self.updates + 1, now
        self.answered_requests = self.sent_requests
        self.removed_partitions.update(self.cluster, now)
        self._log_update(completion, before)
        self._log_leaderless(now)
        if any(self._is_pending(topic) for topic in self._topics):
            self._retry.back_off(now)
        else:
            self._retry.record_success(now + self._config.metadata_max_age_ms / 1000)
        if self.denials.unclear or not self._topics <= self._requested:
            # A retry for missing topics must not delay topics that were added after the request.
            self._retry.schedule(now)

    def _schedule_new_topics(self) -> None:
        """Schedule a request immediately if a required topic is neither known nor requested."""
        topics = self.session_topics
        if topics is self._topics:
            return
        if any(name not in self.cluster.topics for name in topics - self._topics):
            self._retry.schedule(0.0)
        self._topics = topics

    def _accept(self, response: Any) -> bool:
        """Return True if the response is usable; set `failure` if it is from another cluster."""
        if code := int(getattr(response, "error_code", 0)):
            if code == ErrorCode.rebootstrap_required:
                self._rebootstrap_timer.require()
            return False
        ours, theirs = self.cluster.cluster_id, getattr(response, "cluster_id", None)
        if ours is not None and theirs not in {None, ours}:
            self.failure = DeliveryError(
                f"the brokers now belong to cluster {theirs} instead of {ours}",
                hint="Check kafka.bootstrap.servers, then run the write again.",
            )
            return False
        # A broker that is starting can return no brokers; keep the known brokers.
        return len(response.brokers) > 0

    def _rebootstrap(self, network: NetworkClient, now: float) -> None:
        """Drop all known brokers, so that only the bootstrap servers are left."""
        if self._outages.observe(_BOOTSTRAP_OUTAGE, now) is not None:
            _LOG.warning("no known broker returns metadata: retrying with the bootstrap servers")
        self.cluster = self.cluster.without_nodes()
        network.forget_all("rebootstrapping", now)

    def _log_update(self, completion: Completion, before: ClusterSnapshot) -> None:
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
            for name, topic in after.topics.items():
                if before.topics.get(name) != topic:
                    log_event("topic", topic=name, id=topic.topic_id, leaders=topic.leaders)

    def _log_leaderless(self, now: float) -> None:
        """Log partitions that have had no leader for a while, and log when all have one again."""
        for topic in self._topics:
            leaderless = self._leaderless_partitions(topic)
            if not leaderless:
                if (outage := self._outages.end(topic)) is not None:
                    length = now - outage.since
                    _LOG.warning(
                        "topic %s: all partitions have a leader after %.1f s", topic, length
                    )
                continue
            if (outage := self._outages.observe(topic, now, _LEADERLESS_LOG_S)) is not None:
                _LOG.warning(
                    "topic %s: %d of %d partitions (%s) have had no leader for %.1f s; their "
                    "records wait until delivery.timeout.ms has passed%s",
                    topic,
                    len(leaderless),
                    self.cluster.topics[topic].partition_count,
                    listed([*map(str, leaderless)], _MAX_LISTED_PARTITIONS),
                    now - outage.since,
                    self._outages.take_omitted_note(),
                )

    def _leaderless_partitions(self, topic: str) -> list[int]:
        """Return the partitions that have no leader, or whose leader is not a known broker."""
        cluster_topic = self.cluster.topics.get(topic)
        nodes = self.cluster.nodes
        return [
            partition
            for partition, leader in enumerate(cluster_topic.leaders if cluster_topic else ())
            if leader not in nodes
        ]

    def _is_pending(self, topic: str) -> bool:
        return topic not in self.cluster.topics or bool(self._leaderless_partitions(topic))

    def _metadata_request(self, network: NetworkClient, node: Node) -> Request:
        version = network.broker(node.node_id).versions.latest_usable(ApiKey.METADATA)
        values = {
            "topics": [{"name": name} for name in sorted(self._topics)],
            "allow_auto_topic_creation": self._may_create,
        }
        return Request.of(ApiKey.METADATA, version, values, self)


def is_fatal(cluster: ClusterSnapshot, topic: str) -> bool:
    """Return True if a topic's latest error is not transient."""
    code = cluster.errors.get(topic, ErrorCode.none)
    return code != ErrorCode.none and code not in TRANSIENT_TOPIC_ERRORS


def _split_host_port(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    return host, int(port)
