"""Topics that a client may not describe, or may not create.

If a Metadata request allows topic creation, brokers return TOPIC_AUTHORIZATION_FAILED in both
cases. If the request does not allow creation, brokers return UNKNOWN_TOPIC_OR_PARTITION for a
missing topic that the client is authorized to describe.

Source: ``KafkaApis.handleTopicMetadataRequest``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot

_DENIED = int(ErrorCode.topic_authorization_failed)
_UNKNOWN = int(ErrorCode.unknown_topic_or_partition)


@dataclass(slots=True)
class TopicDenials:
    """A session's unauthorized topics. Only the sender thread uses it, except for `uncreatable`."""

    uncreatable: frozenset[str] = frozenset()
    """Missing topics that this client is not authorized to create; any thread can read this."""
    unclear: frozenset[str] = frozenset()
    """Unauthorized topics to classify with the next request, which does not allow creation."""
    _hidden: frozenset[str] = frozenset()
    """Topics that this client is not authorized to describe."""

    def classify(self, snapshot: ClusterSnapshot, *, may_create: bool) -> ClusterSnapshot:
        """Classify the unauthorized topics in a response.

        Args:
            snapshot: the cluster according to the response.
            may_create: True if the request allowed brokers to create topics.

        Returns:
            The cluster without the errors of topics that are not classified yet. Missing topics
            that the client is not authorized to create have TOPIC_AUTHORIZATION_FAILED.
        """
        denied = frozenset(name for name, code in snapshot.errors.items() if code == _DENIED)
        if may_create:
            self.uncreatable, self._hidden = self.uncreatable & denied, self._hidden & denied
            self.unclear = denied - self.uncreatable - self._hidden
            return _replace_errors(snapshot, dict.fromkeys(self.unclear))
        missing = {name for name in self.unclear if snapshot.errors.get(name) == _UNKNOWN}
        self.uncreatable |= missing
        self._hidden |= denied
        self.unclear = frozenset()
        return _replace_errors(snapshot, dict.fromkeys(missing, _DENIED))


def _replace_errors(cluster: ClusterSnapshot, changed: dict[str, int | None]) -> ClusterSnapshot:
    """Return the cluster with changed errors of some topics; None removes the error."""
    if not changed:
        return cluster
    merged = {**cluster.errors, **changed}
    errors = {name: code for name, code in merged.items() if code is not None}
    return replace(cluster, errors=MappingProxyType(errors))
