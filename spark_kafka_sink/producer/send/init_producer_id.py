"""Request the producer id without blocking the sender (KIP-98)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from spark_kafka_sink.client.backoff import full_jitter
from spark_kafka_sink.client.request import Request
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.producer.producer_state import ProducerIdState, ProducerState
from spark_kafka_sink.protocol.codec import encode
from spark_kafka_sink.protocol.error_codes import (
    AUTHORIZATION_FAILED,
    COORDINATOR_UNAVAILABLE,
    ClientErrorCode,
    ErrorCode,
    error_name,
)
from spark_kafka_sink.protocol.versions import ApiKey, make_request

if TYPE_CHECKING:
    from spark_kafka_sink.client.client import Client
    from spark_kafka_sink.client.request import Completion
    from spark_kafka_sink.producer.acl import AclAdvisor

_NO_TIMEOUT = timedelta(milliseconds=2**31 - 1)


class ProducerIdRequester:
    """Sends InitProducerId while the producer has no id; sender thread only."""

    def __init__(self, client: Client, producer_state: ProducerState, acls: AclAdvisor) -> None:
        self.producer_state = producer_state
        self._client = client
        self._acls = acls
        self._retry_at = 0.0
        self._attempts = 0

    def maybe_send(self, now: float) -> None:
        """Send InitProducerId if the id is missing and a broker is ready."""
        if self.producer_state.state is not ProducerIdState.MISSING or now < self._retry_at:
            return
        network = self._client.network
        node = self._client.metadata.least_loaded_node(network, now)
        if node is None:
            self._client.metadata.connect_any(network, now)
            return
        version = network.broker(node.node_id).connection.version(ApiKey.INIT_PRODUCER_ID)
        payload = make_request(
            ApiKey.INIT_PRODUCER_ID,
            version,
            transactional_id=None,
            transaction_timeout=_NO_TIMEOUT,
        )
        self.producer_state.transition_to(ProducerIdState.REQUESTED)
        request = Request(
            api=ApiKey.INIT_PRODUCER_ID, version=version, body=[encode(payload)], context=self
        )
        network.send(node.node_id, request, now)

    def handle_response(self, completion: Completion, now: float) -> None:
        """Store the producer id, or schedule a retry.

        Raises:
            DeliveryError: the broker refuses to grant this client a producer id.
            AuthorizationError: an ACL is missing.
        """
        response = completion.response
        code = ClientErrorCode.disconnected if response is None else int(response.error_code)
        if response is not None and code == ErrorCode.none:
            self._attempts = 0
            producer_id, epoch = int(response.producer_id), int(response.producer_epoch)
            self.producer_state.producer_id_granted(producer_id, epoch)
            return
        self.producer_state.transition_to(ProducerIdState.MISSING)
        broker = str(completion.node)
        if code in AUTHORIZATION_FAILED:
            raise self._acls.no_producer_id(self._client.metadata.wanted, broker, code)
        if code not in COORDINATOR_UNAVAILABLE:
            raise DeliveryError(
                "the broker refused a producer id",
                broker=broker,
                error=error_name(code),
                hint="without a producer id there is kafka.enable.idempotence=false",
            )
        config = self._client.config
        self._retry_at = now + full_jitter(
            self._attempts,
            config.retry_backoff_ms,
            config.retry_backoff_max_ms,
            self._client.random,
        )
        self._attempts += 1

    def wait(self, now: float) -> float:
        """Return the seconds until `maybe_send` has something to do."""
        if self.producer_state.state is not ProducerIdState.MISSING:
            return 1.0
        return max(0.02, self._retry_at - now)
