"""The transaction protocol of a broker, from its ApiVersions response."""

import pickle
from typing import Any

import pytest

from spark_kafka_sink.kafka.protocol.messages import build
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.protocol.versions import (
    NO_FEATURES_EPOCH,
    ApiKey,
    VersionRange,
    finalized_levels,
    response_type,
)

V1, V2 = TransactionVersion.V1, TransactionVersion.V2
KAFKA_4 = {ApiKey.PRODUCE: VersionRange(3, 13), ApiKey.END_TXN: VersionRange(0, 5)}


def levels(level: int | None, *, version: int = 4, epoch: int = 7) -> dict[str, int]:
    """Return the levels in a response of this version with transaction.version."""
    values: dict[str, Any] = {"api_keys": []}
    if level is not None:
        name = "transaction.version"
        finalized = {"name": name, "max_version_level": level, "min_version_level": level}
        supported = {"name": name, "min_version": 0, "max_version": 2}
        values |= {"finalized_features": [finalized], "supported_features": [supported]}
        values["finalized_features_epoch"] = epoch
    return finalized_levels(build(response_type(ApiKey.API_VERSIONS, version), values))


@pytest.mark.parametrize(
    ("level", "versions", "expected"),
    [
        (2, KAFKA_4, V2),
        (3, KAFKA_4, V2),
        (1, KAFKA_4, V1),
        (None, KAFKA_4, V1),
        (2, KAFKA_4 | {ApiKey.PRODUCE: VersionRange(3, 11)}, V1),
        (2, KAFKA_4 | {ApiKey.END_TXN: VersionRange(0, 4)}, V1),
        (2, {ApiKey.PRODUCE: VersionRange(3, 13)}, V1),
    ],
)
def test_v2_requires_the_feature_and_the_versions(
    level: int | None, versions: dict[int, VersionRange], expected: TransactionVersion
) -> None:
    assert TransactionVersion.of(levels(level), versions) is expected


def test_responses_before_version_3_have_no_features() -> None:
    assert levels(2, version=2) == {}
    assert levels(1, version=3) == {"transaction.version": 1}


def test_finalized_levels_without_an_epoch_are_unknown() -> None:
    assert levels(2, epoch=NO_FEATURES_EPOCH) == {}


def test_v1_stays_below_the_versions_of_v2() -> None:
    assert [V1.max_version(api) for api in (ApiKey.PRODUCE, ApiKey.END_TXN)] == [11, 4]
    assert [V2.max_version(api) for api in (ApiKey.PRODUCE, ApiKey.END_TXN)] == [None, None]
    assert (V1.needs_add_partitions, V1.bumps_epoch) == (True, False)
    assert (V2.needs_add_partitions, V2.bumps_epoch) == (False, True)


def test_transaction_is_passed_from_a_task_to_the_driver() -> None:
    opened = TransactionalProducer(transactional_id="a-1", producer_id=4_000, epoch=3, version=V2)
    assert pickle.loads(pickle.dumps(opened)) == opened
