"""A broker that closes the connection whenever it receives a request."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, QueuedRequest
from spark_kafka_sink.kafka.protocol import messages
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.scripted_coordinator import LOST, ScriptedCoordinator, opened

CALLS: dict[ApiKey, Callable[[BlockingClient, float], object]] = {
    ApiKey.DESCRIBE_CONFIGS: lambda client, until: TopicAdmin(client).broker_config("x", until),
    ApiKey.INIT_PRODUCER_ID: lambda client, until: TransactionAdmin(client).init_producer_id(
        "a", 1_000, until
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: lambda client, until: TransactionAdmin(client).describe(
        ["a"], until
    ),
    ApiKey.LIST_TRANSACTIONS: lambda client, until: TransactionAdmin(client).list(None, until),
}


@pytest.mark.parametrize("api", CALLS)
def test_second_closed_connection_is_an_error_that_names_the_api(api: ApiKey) -> None:
    cluster = ScriptedCoordinator()
    cluster.scripts[api] = lambda _node, _request: None
    with blocking_client(cluster) as client:
        began = client.now()
        text = f"the broker closed the connection twice when it received {api.name} "
        with pytest.raises(ProtocolError, match=text):
            CALLS[api](client, client.deadline(60))
        assert client.now() < began + 2
    assert len(cluster.requests_for(api)) == 2


@pytest.mark.parametrize("api", CALLS)
def test_second_unreadable_response_is_an_error_that_names_the_api(
    api: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ScriptedCoordinator()
    cluster.scripts[api] = lambda _node, _request: {}
    read = messages.read_response

    def read_part(kind: Any, frame: memoryview) -> tuple[int, Any]:
        return read(kind, frame[:5] if kind.__api_key__ == api else frame)

    monkeypatch.setattr(messages, "read_response", read_part)
    with blocking_client(cluster) as client:
        began = client.now()
        with pytest.raises(ProtocolError, match=rf"cannot read the response to {api.name}.*twice"):
            CALLS[api](client, client.deadline(60))
        assert client.now() < began + 2
    assert len(cluster.requests_for(api)) == 2


def test_commit_is_retried_until_its_deadline(cluster: ScriptedCoordinator) -> None:
    cluster.scripts[ApiKey.END_TXN] = lambda _node, _request: None
    with blocking_client(cluster) as client:
        codes = TransactionAdmin(client).end(
            [opened("a")], commit=True, deadline=client.deadline(2)
        )
    assert codes == {"a": ClientErrorCode.disconnected}
    assert len(cluster.requests_for(ApiKey.END_TXN)) > 2


def test_connection_closed_on_an_older_request_does_not_count(
    cluster: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker processes the requests of a connection in order."""
    cluster.queue_codes("a", [LOST] * 4)
    with blocking_client(cluster) as client:
        submit = client.submit

        def submit_after_another(call: QueuedRequest) -> None:
            done = call.done
            submit(replace(call, done=lambda outcome: done(replace(outcome, is_oldest=False))))

        monkeypatch.setattr(client, "submit", submit_after_another)
        admin = TransactionAdmin(client)
        assert admin.init_producer_id("a", 1_000, client.deadline(60)).producer_id == 7
