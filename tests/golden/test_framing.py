"""Request and response headers of every API and version, parsed by Kafka."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from spark_kafka_sink.kafka.protocol.message_format import encode
from spark_kafka_sink.kafka.protocol.messages import request_header
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.entities import MESSAGES, entities
from tools.support.frames import response_frame
from tools.support.java import Jvm

ONE = settings(
    max_examples=1,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
APIS = [api.name.lower() for api in ApiKey]


def known(jvm: Jvm, api: str, suffix: str) -> tuple[Any, list[type[Any]]]:
    """Return the request or response classes whose versions this Kafka supports."""
    key = jvm.common.protocol.ApiKeys.forId(ApiKey[api.upper()].value)
    types = [t for t in MESSAGES[api] if t.__name__.endswith(suffix)]
    return key, [t for t in types if key.oldestVersion() <= t.__version__ <= key.latestVersion()]


@pytest.mark.parametrize("client_id", ["kafkaprod-1", "", None, "größe"])
@pytest.mark.parametrize("api", APIS)
def test_kafka_parses_our_request_headers(jvm: Jvm, api: str, client_id: str | None) -> None:
    _, requests = known(jvm, api, "Request")
    assert requests
    for request in requests:
        buffer = jvm.buffer(request_header(request, 77, client_id) + b"body")
        header = jvm.common.requests.RequestHeader.parse(buffer)
        assert header.data().requestApiKey() == ApiKey[api.upper()]
        assert header.apiVersion() == request.__version__
        assert header.correlationId() == 77
        assert header.clientId() == (client_id or ""), "Kafka makes null an empty id"
        assert buffer.remaining() == len(b"body")


@pytest.mark.parametrize("api", APIS)
def test_kafka_parses_our_response_headers(jvm: Jvm, api: str) -> None:
    key, responses = known(jvm, api, "Response")
    assert responses
    for response in responses:
        check_response(jvm, key, response)


def check_response(jvm: Jvm, key: Any, response_type: type[Any]) -> None:
    @ONE
    @given(payload=entities(response_type))
    def run(payload: Any) -> None:
        framed = response_frame(payload, 78)
        assert int.from_bytes(framed[:4]) == len(framed) - 4
        buffer = jvm.buffer(framed[4:])
        version = key.responseHeaderVersion(response_type.__version__)
        header = jvm.common.requests.ResponseHeader.parse(buffer, version)
        assert header.correlationId() == 78
        assert buffer.remaining() == len(encode(payload))

    run()
