"""Version negotiation with brokers."""

import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    VersionRange,
    negotiate,
    request_type,
    response_type,
)


@pytest.mark.parametrize(
    ("ours", "theirs", "cap", "chosen"),
    [
        ((3, 13), (0, 13), None, 13),
        ((3, 13), (0, 9), None, 9),
        ((3, 13), (5, 99), None, 13),
        ((3, 13), (0, 13), 11, 11),
        ((3, 13), (0, 9), 11, 9),
        ((3, 13), (13, 13), None, 13),
    ],
)
def test_highest_common_version(
    ours: tuple[int, int], theirs: tuple[int, int], cap: int | None, chosen: int
) -> None:
    assert negotiate(ApiKey.PRODUCE, VersionRange(*ours), VersionRange(*theirs), cap) == chosen


@pytest.mark.parametrize(("theirs", "cap"), [((0, 2), None), ((14, 15), None), ((12, 13), 11)])
def test_no_common_version_names_the_api_and_both_ranges(
    theirs: tuple[int, int], cap: int | None
) -> None:
    with pytest.raises(ProtocolError) as raised:
        negotiate(ApiKey.PRODUCE, VersionRange(3, 13), VersionRange(*theirs), cap)
    assert "PRODUCE" in str(raised.value)
    assert "3-13" in str(raised.value)
    assert f"{theirs[0]}-{theirs[1]}" in str(raised.value)


def test_unsupported_api_is_named() -> None:
    with pytest.raises(ProtocolError, match="INIT_PRODUCER_ID"):
        negotiate(ApiKey.INIT_PRODUCER_ID, VersionRange(0, 5), None)


@pytest.mark.parametrize("api", sorted(CLIENT_VERSIONS))
def test_all_versions_of_the_client_have_classes(api: ApiKey) -> None:
    versions = CLIENT_VERSIONS[api]
    for version in range(versions.lowest, versions.highest + 1):
        for message_type in (request_type(api, version), response_type(api, version)):
            assert (message_type.__api_key__, message_type.__version__) == (api, version)


@pytest.mark.parametrize(("api", "version"), [(0, 2), (0, 14), (999, 0), (-1, 0), (3, -1)])
def test_nonexistent_versions_are_rejected(api: ApiKey, version: int) -> None:
    with pytest.raises(ProtocolError):
        request_type(api, version)
    with pytest.raises(ProtocolError):
        response_type(api, version)
