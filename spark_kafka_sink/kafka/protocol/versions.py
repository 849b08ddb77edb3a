"""API keys, version ranges, and the finalized features of a cluster.

Brokers return features in ApiVersions responses since version 3 (KIP-584).
Source: ``ApiVersionsResponse.json``, ``FinalizedFeatures``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

from kio.index import KioIndexError, load_request_schema, load_response_schema

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


NO_FEATURES_EPOCH = -1
PRODUCE_WITH_TOPIC_IDS = FETCH_WITH_TOPIC_IDS = 13
"""The first version of each API that names topics by their ids (KIP-516)."""
PRODUCE_WITH_ABORTABLE_ERROR, OFFSET_COMMIT_WITH_ABORTABLE_ERROR = 11, 4
"""The first versions of Produce and TxnOffsetCommit that may return TRANSACTION_ABORTABLE."""
PRODUCE_ADDS_PARTITIONS, OFFSET_COMMIT_ADDS_GROUP = 12, 5
"""The first versions of Produce and TxnOffsetCommit that extend the transaction (KIP-890)."""
_UNSUPPORTED = error_name(ErrorCode.unsupported_version)


class UnsupportedApiError(ProtocolError):
    """The broker does not support an API in any version that this client supports."""


def finalized_levels(response: Any) -> dict[str, int]:
    """Return the level of each feature that the whole cluster uses, from an ApiVersionsResponse.

    The result is empty if the broker does not know the levels.
    """
    epoch = int(getattr(response, "finalized_features_epoch", NO_FEATURES_EPOCH))
    features = response.finalized_features if epoch > NO_FEATURES_EPOCH else ()
    return {feature.name: int(feature.max_version_level) for feature in features}


class ApiKey(IntEnum):
    """APIs that the package's client or broker supports, with the names of Kafka's ApiKeys."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


_SINCE = {
    ApiKey.DESCRIBE_PRODUCERS: "2.8",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0",
    ApiKey.LIST_TRANSACTIONS: "3.0",
}
"""First Kafka release that has an API, for APIs that only some functions of this package need."""


@dataclass(frozen=True, slots=True, order=True)
class VersionRange:
    """The versions of an API, both ends included."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def common(self, other: VersionRange) -> VersionRange | None:
        """Return the versions in both ranges, or None if the ranges do not overlap."""
        lowest, highest = max(self.lowest, other.lowest), min(self.highest, other.highest)
        return VersionRange(lowest, highest) if lowest <= highest else None

    def __str__(self) -> str:
        return f"{self.lowest}-{self.highest}"


CLIENT_VERSIONS: Mapping[ApiKey, VersionRange] = {
    ApiKey.PRODUCE: VersionRange(3, 13),
    ApiKey.FETCH: VersionRange(4, 17),
    ApiKey.LIST_OFFSETS: VersionRange(1, 10),
    ApiKey.METADATA: VersionRange(0, 13),
    ApiKey.OFFSET_FETCH: VersionRange(1, 10),
    ApiKey.FIND_COORDINATOR: VersionRange(0, 6),
    ApiKey.SASL_HANDSHAKE: VersionRange(1, 1),
    ApiKey.API_VERSIONS: VersionRange(0, 4),
    ApiKey.CREATE_TOPICS: VersionRange(2, 7),
    ApiKey.DELETE_TOPICS: VersionRange(1, 6),
    ApiKey.INIT_PRODUCER_ID: VersionRange(0, 5),
    ApiKey.ADD_PARTITIONS_TO_TXN: VersionRange(0, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: VersionRange(0, 4),
    ApiKey.END_TXN: VersionRange(0, 5),
    ApiKey.TXN_OFFSET_COMMIT: VersionRange(0, 5),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
    ApiKey.SASL_AUTHENTICATE: VersionRange(0, 2),
    ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 2),
    ApiKey.DESCRIBE_PRODUCERS: VersionRange(0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: VersionRange(0, 0),
    ApiKey.LIST_TRANSACTIONS: VersionRange(0, 2),
}
"""The client's versions. InitProducerId 6 and Fetch 18 are unstable in Kafka 4.3."""


def negotiate(
    api: ApiKey, ours: VersionRange, theirs: VersionRange | None, max_version: int | None = None
) -> int:
    """Return the highest version that both sides support, at most `max_version`.

    Args:
        api: the API, for the error message.
        ours: the client's versions.
        theirs: the broker's versions, or None if the broker does not support the API.
        max_version: a limit for this request, such as 11 for Produce in transactions V1 (KIP-890).

    Raises:
        UnsupportedApiError: no version is supported by both sides.
    """
    if theirs is None:
        raise UnsupportedApiError(
            f"the broker does not support {api.name}; this client supports versions {ours}",
            kafka_error=_UNSUPPORTED,
            hint=f"Use brokers compatible with Apache Kafka {_SINCE.get(api, '2.1')} or later.",
        )
    highest = min(
        ours.highest, theirs.highest, ours.highest if max_version is None else max_version
    )
    if highest >= max(ours.lowest, theirs.lowest):
        return highest
    limit = "" if max_version is None else f" (up to {max_version} for this request)"
    raise UnsupportedApiError(
        f"no common version of {api.name}: this client supports {ours}{limit}, the broker "
        f"supports {theirs}",
        kafka_error=_UNSUPPORTED,
        hint="Upgrade the client or the broker, whichever is older.",
    )


@cache
def request_type(api: int, version: int) -> type[Any]:
    """Return the request class of an API version.

    Raises:
        ProtocolError: the API or the version does not exist.
    """
    return _load_schema(load_request_schema, "request", api, version)


@cache
def response_type(api: int, version: int) -> type[Any]:
    """Return the response class of an API version.

    Raises:
        ProtocolError: the API or the version does not exist.
    """
    return _load_schema(load_response_schema, "response", api, version)


def _load_schema(
    load: Callable[[int, int], Any], direction: str, api: int, version: int
) -> type[Any]:
    try:
        message_class: type[Any] = load(api, version)
    except KioIndexError as error:
        name = ApiKey(api).name if api in ApiKey.__members__.values() else str(api)
        raise ProtocolError(f"API {name} does not define {direction} version {version}") from error
    return message_class
