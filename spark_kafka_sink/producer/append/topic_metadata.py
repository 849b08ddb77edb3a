"""The metadata of the topics that a session writes to, for the writer thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import BrokerUnavailableError, UnknownTopicError
from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
from spark_kafka_sink.kafka.client.metadata import is_fatal
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.producer.bad_rows.row_error import TOPIC_ROW_ERRORS, RowError

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.producer_client import ProducerClient


_REFRESH_INTERVAL_S = 1.0
"""Minimum time between metadata requests for rows with unknown partitions, in seconds."""
_RETRY_TIMEOUT_S = 5.0
"""Seconds to wait for a missing topic after a wait for another topic has timed out."""


class TopicMetadata:
    """Requests topic metadata, and waits for it if necessary; writer thread only.

    It reads metadata snapshots, which the sender thread replaces as a whole, and a copy of the
    reasons for connection failures.
    """

    def __init__(self, client: ProducerClient, acls: AclAdvisor, state: SessionState) -> None:
        self._client = client
        self._acls = acls
        self._config = client.config
        self._state = state
        self._added_topics: set[str] = set()
        self._awaited: dict[str, float] = {}
        """Deadline of each topic that was unknown to `start_waiting`."""
        self._next_refresh_at = 0.0
        self._missing_topics: set[str] = set()
        """Topics that were missing when `await_topics_or_errors` timed out. It does not wait for
        them again.
        """

    def await_topics(self, names: tuple[str, ...]) -> tuple[ClusterTopic, ...]:
        """Return the topics in the cluster; wait at most max.block.ms for them.

        Raises:
            UnknownTopicError: a topic does not exist, or cannot be used.
            AuthorizationError: Describe or Create on a topic is denied.
            BrokerUnavailableError: no broker responded.
        """
        cluster = self._await_snapshot(names, self._has_result)
        missing = [name for name in names if name not in cluster.topics]
        if missing:  # A rejected topic ends the wait for the others.
            rejected = next((name for name in missing if is_fatal(cluster, name)), missing[0])
            raise self._missing_error(rejected, cluster)
        return tuple(cluster.topics[name] for name in names)

    def cached_topics(self, names: tuple[str, ...]) -> tuple[ClusterTopic, ...]:
        """Return the topics from the current metadata; an unknown topic has no partitions."""
        topics = self._client.metadata.cluster.topics
        return tuple(topics.get(name) or ClusterTopic(name, None, (), ()) for name in names)

    def start_waiting(self, names: tuple[str, ...]) -> None:
        """Start the max.block.ms timeout of unknown topics; wait only if it has already expired."""
        self.add_topics(names)
        cluster = self._client.metadata.cluster
        missing = tuple(name for name in names if name not in cluster.topics)
        if not missing:
            return
        deadline = self._client.clock.monotonic() + self._config.max_block_ms / 1000
        for name in missing:
            self._awaited.setdefault(name, deadline)
        if self._remaining_s(missing) <= 0 or any(is_fatal(cluster, name) for name in missing):
            self.finish_waiting()

    def finish_waiting(self) -> None:
        """Wait for every topic that `start_waiting` did not know; raise as `await_topics` does."""
        if self._awaited:
            self.await_topics(tuple(self._awaited))
            self._awaited.clear()

    def refresh_and_wait(self) -> bool:
        """Request fresh metadata and wait for it; return True if it has arrived.

        Return False without a request if the last request is too recent. Partitions can be added to
        a topic during the write.
        """
        now = self._client.clock.monotonic()
        metadata = self._client.metadata
        if now < max(self._next_refresh_at, (metadata.updated_at or 0.0) + _REFRESH_INTERVAL_S):
            return False
        self._next_refresh_at = now + _REFRESH_INTERVAL_S
        earlier = metadata.sent_requests  # responses to earlier requests may be stale
        metadata.request_refresh()
        self._client.network.wakeup()
        return self._wait_for(
            lambda: metadata.answered_requests > earlier, self._config.max_block_ms / 1000
        )

    def await_topics_or_errors(self, names: tuple[str, ...]) -> tuple[ClusterTopic | RowError, ...]:
        """Return each topic's metadata, or the error for its rows.

        Wait at most max.block.ms for missing topics, once for each topic. After one such timeout,
        wait only a few seconds, because the brokers probably do not create topics.

        Raises:
            UnknownTopicError: a topic is temporarily unusable, for example without a leader.
            BrokerUnavailableError: no broker responded.
        """
        missing_before = self._missing_topics

        def is_done(cluster: ClusterSnapshot, names: tuple[str, ...]) -> bool:
            return all(
                name in cluster.topics
                or is_fatal(cluster, name)
                or (name in missing_before and name in cluster.errors)
                for name in names
            )

        cluster = self._await_snapshot(names, is_done, _RETRY_TIMEOUT_S if missing_before else None)
        missing = {name for name in names if name not in cluster.topics}
        self._missing_topics = missing_before.difference(names) | missing
        results: list[ClusterTopic | RowError] = []
        for name in names:
            topic = cluster.topics.get(name) or TOPIC_ROW_ERRORS.get(cluster.errors.get(name, 0))
            if topic is None:
                raise self._missing_error(name, cluster)
            results.append(topic)
        return tuple(results)

    def add_topics(self, names: tuple[str, ...]) -> None:
        """Include these topics in metadata requests, without waiting."""
        if not self._added_topics.issuperset(names):
            self._added_topics.update(names)
            self._client.metadata.add_topics(names)
            self._client.network.wakeup()

    def _await_snapshot(
        self,
        names: tuple[str, ...],
        done: Callable[[ClusterSnapshot, tuple[str, ...]], bool],
        max_seconds: float | None = None,
    ) -> ClusterSnapshot:
        """Return the first snapshot that satisfies `done`, or the current one after the timeout.

        The timeout is max.block.ms, or `max_seconds` if that is less. Callers must use the returned
        snapshot: a topic known from an earlier session may be missing from the next response, if
        that response was requested before this session needed the topic.
        """
        self.add_topics(names)
        cluster = self._client.metadata.cluster

        def is_done() -> bool:
            nonlocal cluster
            cluster = self._client.metadata.cluster
            return done(cluster, names)

        if not done(cluster, names):
            timeout = self._remaining_s(names)
            self._wait_for(is_done, timeout if max_seconds is None else min(timeout, max_seconds))
        return cluster

    def _wait_for(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait as `SessionState.wait_for` does, but restart the timeout after a throttle pause.

        Pauses restart the timeout only until metadata arrives, because a quota may throttle every
        response.
        """
        metadata, begin = self._client.metadata, 0.0
        earlier = metadata.sent_requests  # responses to earlier requests may be stale

        def since() -> float:
            nonlocal begin
            if metadata.answered_requests <= earlier:
                begin = self._state.throttled_until
            return begin

        return self._state.wait_for(done, seconds, since)

    def _remaining_s(self, names: tuple[str, ...]) -> float:
        """Return how many seconds of max.block.ms are left (design.md: missing-topic)."""
        now = self._client.clock.monotonic()
        whole = self._config.max_block_ms / 1000
        return min((self._awaited.get(name, now + whole) for name in names), default=now) - now

    @staticmethod
    def _has_result(cluster: ClusterSnapshot, names: tuple[str, ...]) -> bool:
        if any(is_fatal(cluster, name) for name in names):
            return True
        return all(name in cluster.topics for name in names)

    def _missing_error(self, topic: str, cluster: ClusterSnapshot) -> KafkaProdError:
        max_block_ms = self._config.max_block_ms
        code = cluster.errors.get(topic)
        if code is None:
            return self._unreachable_error()
        if code == ErrorCode.topic_authorization_failed:
            return self._acls.topic_error(topic)
        is_dead_letter_topic = topic == self._acls.dead_letter_topic
        kind = "dead letter topic" if is_dead_letter_topic else "topic"
        return UnknownTopicError(
            f"the {kind} was not available within max.block.ms = {max_block_ms}"
            if not is_fatal(cluster, topic)
            else f"the brokers reject the {kind}",
            topic=topic,
            kafka_error=error_name(code),
            hint=_how_to_create(is_dead_letter_topic=is_dead_letter_topic)
            + " Brokers create topics automatically only with auto.create.topics.enable=true and "
            "kafka.allow.auto.create.topics=true.",
        )

    def _unreachable_error(self) -> BrokerUnavailableError:
        failures = dict(self._client.network.failures.reasons)
        for server in self._config.bootstrap_servers:
            failures.setdefault(server, "no response")
        tried = "; ".join(f"{address}: {reason}" for address, reason in sorted(failures.items()))
        return BrokerUnavailableError(
            f"no broker responded within max.block.ms = {self._config.max_block_ms}. Tried {tried}",
            hint="Check kafka.bootstrap.servers, and that the brokers can be reached from the "
            "machine that runs this task.",
        )


def _how_to_create(*, is_dead_letter_topic: bool) -> str:
    name = "errors.deadletterqueue.topic.name" if is_dead_letter_topic else "the name"
    return f"Correct {name}, or create the topic: topic.create=true, or kafka-topics."
