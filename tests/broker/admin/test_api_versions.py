"""Raw ApiVersions requests."""

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.support.raw_client import RawClient


def test_unsupported_version_of_api_versions(any_raw: RawClient) -> None:
    any_raw.socket.sendall(b"\0\0\0\x0b\0\x12\0\x63\0\0\0\x05\xff\xff\0")
    any_raw.correlation_id = 5
    response = any_raw.receive(ApiKey.API_VERSIONS, 0)
    assert response.error_code is ErrorCode.unsupported_version
    assert [k.max_version for k in response.api_keys if k.api_key == ApiKey.API_VERSIONS] == [4]


def test_software_names_are_checked(any_raw: RawClient) -> None:
    software = {"client_software_name": "-raw", "client_software_version": ""}
    answer = any_raw.call(ApiKey.API_VERSIONS, 3, **software)
    assert answer.error_code is ErrorCode.invalid_request
