"""Which right a refused topic lacks: to be seen, or to be created.

To a Metadata request that may create topics, brokers answer TOPIC_AUTHORIZATION_FAILED for both.
One that may not create them tells: a topic that may be seen and is not there is unknown. Source:
``KafkaApis.handleTopicMetadataRequest``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from spark_kafka_sink.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from spark_kafka_sink.client.cluster import Cluster

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
