"""API versions that each release of Kafka supports, for a broker that emulates a release.

The table contains the APIs that this broker supports, with the versions that real brokers reported
in ApiVersions: 2.1.1, 2.4.1, 2.6.3, 2.8.2, 3.0.2, 3.3.2, 3.6.2 and 3.9.1 with ZooKeeper; 4.0.0,
4.1.1 and 4.3.1 with KRaft.

The versions of 2.4 to 3.6 also match validVersions in Kafka's sources at these tags
(clients/src/main/resources/common/message), except OffsetCommit 9 in 3.6, which is unstable. The
SASL rows of 2.1 match the schemaVersions of SaslHandshakeRequest and SaslAuthenticateRequest.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Mapping

_TABLE = """\
api                             2.1   2.4   2.6   2.8   3.0   3.3   3.6   3.9   4.0   4.1   4.3
PRODUCE                         0-7   0-8   0-8   0-9   0-9   0-9   0-9  0-11  0-12  0-13  0-13
FETCH                          0-10  0-11  0-11  0-12  0-12  0-13  0-15  0-17  4-17  4-18  4-18
LIST_OFFSETS                    0-4   0-5   0-5   0-6   0-7   0-7   0-8   0-9  1-10  1-10  1-11
METADATA                        0-7   0-9   0-9  0-11  0-11  0-12  0-12  0-12  0-13  0-13  0-13
OFFSET_COMMIT                   0-6   0-8   0-8   0-8   0-8   0-8   0-8   0-9   2-9   2-9  2-10
OFFSET_FETCH                    0-5   0-6   0-7   0-7   0-8   0-8   0-8   0-9   1-9   1-9  1-10
FIND_COORDINATOR                0-2   0-3   0-3   0-3   0-4   0-4   0-4   0-6   0-6   0-6   0-6
JOIN_GROUP                      0-3   0-6   0-7   0-7   0-7   0-9   0-9   0-9   2-9   0-9   0-9
HEARTBEAT                       0-2   0-4   0-4   0-4   0-4   0-4   0-4   0-4   0-4   0-4   0-4
LEAVE_GROUP                     0-2   0-4   0-4   0-4   0-4   0-5   0-5   0-5   0-5   0-5   0-5
SYNC_GROUP                      0-2   0-4   0-5   0-5   0-5   0-5   0-5   0-5   0-5   0-5   0-5
DESCRIBE_GROUPS                 0-2   0-5   0-5   0-5   0-5   0-5   0-5   0-5   0-6   0-6   0-6
LIST_GROUPS                     0-2   0-3   0-4   0-4   0-4   0-4   0-4   0-5   0-5   0-5   0-5
SASL_HANDSHAKE                  0-1   0-1   0-1   0-1   0-1   0-1   0-1   0-1   0-1   0-1   0-1
SASL_AUTHENTICATE               0-0   0-1   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2
API_VERSIONS                    0-2   0-3   0-3   0-3   0-3   0-3   0-3   0-4   0-4   0-4   0-4
CREATE_TOPICS                   0-3   0-5   0-5   0-7   0-7   0-7   0-7   0-7   2-7   2-7   2-7
DELETE_TOPICS                   0-3   0-4   0-4   0-6   0-6   0-6   0-6   0-6   1-6   1-6   1-6
DELETE_RECORDS                  0-1   0-1   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2
INIT_PRODUCER_ID                0-1   0-2   0-3   0-4   0-4   0-4   0-4   0-5   0-5   0-5   0-5
OFFSET_FOR_LEADER_EPOCH         0-2   0-3   0-3   0-4   0-4   0-4   0-4   0-4   2-4   2-4   2-4
ADD_PARTITIONS_TO_TXN           0-1   0-1   0-1   0-3   0-3   0-3   0-4   0-5   0-5   0-5   0-5
ADD_OFFSETS_TO_TXN              0-1   0-1   0-1   0-3   0-3   0-3   0-3   0-4   0-4   0-4   0-4
END_TXN                         0-1   0-1   0-1   0-3   0-3   0-3   0-3   0-4   0-5   0-5   0-5
WRITE_TXN_MARKERS               0-0   0-0   0-0   0-1   0-1   0-1   0-1   0-1   1-1   1-1   1-2
TXN_OFFSET_COMMIT               0-2   0-2   0-3   0-3   0-3   0-3   0-3   0-4   0-5   0-5   0-5
DESCRIBE_CONFIGS                0-2   0-2   0-3   0-4   0-4   0-4   0-4   0-4   1-4   1-4   1-4
ALTER_CONFIGS                   0-1   0-1   0-1   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2
DESCRIBE_LOG_DIRS               0-1   0-1   0-2   0-2   0-2   0-4   0-4   0-4   1-4   1-4   1-5
CREATE_PARTITIONS               0-1   0-1   0-2   0-3   0-3   0-3   0-3   0-3   0-3   0-3   0-3
DELETE_GROUPS                   0-1   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2
ELECT_LEADERS                     .   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2   0-2
INCREMENTAL_ALTER_CONFIGS         .   0-1   0-1   0-1   0-1   0-1   0-1   0-1   0-1   0-1   0-1
ALTER_PARTITION_REASSIGNMENTS     .   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-1   0-1
LIST_PARTITION_REASSIGNMENTS      .   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0
OFFSET_DELETE                     .   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0
DESCRIBE_CLUSTER                  .     .     .   0-0   0-0   0-0   0-0   0-1   0-2   0-2   0-2
DESCRIBE_PRODUCERS                .     .     .   0-0   0-0   0-0   0-0   0-0   0-0   0-0   0-0
DESCRIBE_TRANSACTIONS             .     .     .     .   0-0   0-0   0-0   0-0   0-0   0-0   0-0
LIST_TRANSACTIONS                 .     .     .     .   0-0   0-0   0-0   0-1   0-1   0-2   0-2
CONSUMER_GROUP_HEARTBEAT          .     .     .     .     .     .     .   0-0   0-1   0-1   0-1
LIST_CONFIG_RESOURCES             .     .     .     .     .     .     .     .   0-0   0-1   0-1
DESCRIBE_TOPIC_PARTITIONS         .     .     .     .     .     .     .     .   0-0   0-0   0-0
"""
_NOT_SERVED = "."
_TRANSACTIONS_V2 = (4, 0)
"""The first release whose brokers have the feature transaction.version (KIP-890)."""


@cache
def releases() -> Mapping[str, Mapping[ApiKey, VersionRange]]:
    """Return the supported versions by release (such as "2.8") and API."""
    heading, *lines = (line.split() for line in _TABLE.splitlines())
    return {
        release: {
            ApiKey[line[0]]: _parse_range(line[column])
            for line in lines
            if line[column] != _NOT_SERVED
        }
        for column, release in enumerate(heading)
        if column
    }


def known_release(text: str) -> str:
    """Return the release in the table for a version such as 2.8 or 2.8.2.

    Raises:
        ConfigError: the table does not contain the release.
    """
    release = ".".join(text.split(".")[:2])
    if release not in releases():
        raise ConfigError(
            f"the API versions of Kafka {text} are unknown",
            hint=f"Known releases: {', '.join(releases())}.",
        )
    return release


def has_transaction_version(release: str) -> bool:
    """Return True if brokers of the release have the feature transaction.version."""
    return tuple(map(int, release.split("."))) >= _TRANSACTIONS_V2


def _parse_range(text: str) -> VersionRange:
    lowest, highest = text.split("-")
    return VersionRange(int(lowest), int(highest))
