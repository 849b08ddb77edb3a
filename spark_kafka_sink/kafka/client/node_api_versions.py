"""The API versions of one broker. Source: ``NodeApiVersions``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.kafka.protocol.transactions import TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    VersionRange,
    finalized_levels,
    negotiate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class NodeApiVersions:
    """The contents of an ApiVersions response; empty before the response."""

    ranges: Mapping[int, VersionRange] = field(default_factory=dict)
    """The broker's versions by API key."""
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    """The finalized levels of the cluster's features."""

    @classmethod
    def of(cls, response: Any) -> Self:
        """Read the body of an ApiVersions response."""
        ranges = {
            int(api.api_key): VersionRange(int(api.min_version), int(api.max_version))
            for api in response.api_keys
        }
        return cls(ranges, finalized_levels(response))

    def latest_usable(self, api: ApiKey, max_version: int | None = None) -> int:
        """Return the version to use for an API.

        Raises:
            ProtocolError: client and broker have no version in common.
        """
        return negotiate(api, CLIENT_VERSIONS[api], self.ranges.get(api), max_version)

    @property
    def transaction_version(self) -> TransactionVersion:
        """The transaction protocol version for a transaction that starts now."""
        return TransactionVersion.of(self.feature_levels, self.ranges)
