"""Check that a leader accepts records from this client, by sending a probe or a single record.

The probe is a Produce request with acks=2. Every broker since Kafka 0.9 rejects it with
INVALID_REQUIRED_ACKS, after checking that the client may write and before appending to the log. The
log does not change, so even read_uncommitted readers see nothing of the probe.

Source: ``KafkaApis.handleProduceRequest``, ``ReplicaManager.isValidRequiredAcks``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.text import capitalized
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding
from spark_kafka_sink.diagnostics.topic_checks import denied
from spark_kafka_sink.kafka.blocking.api_driver import (
    ApiDriver,
    ApiHandler,
    KeyResult,
    LeaderHandler,
)
from spark_kafka_sink.kafka.blocking.lookups import LeaderLookup
from spark_kafka_sink.kafka.logs.append_handlers import ProduceHandler
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import init_producer_id_values
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.record_encoder import encode_records, slice_records
from spark_kafka_sink.kafka.security.acl_commands import Acl, AclCommandBuilder
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.report.task_attempt import TaskAttempt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.config.client_config import ClientConfig
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, RequestCompletion
    from spark_kafka_sink.kafka.protocol.messages import FieldValues

_INVALID_ACKS = 2
KEY = b"kafkaprod-doctor"
_VALUE = b'{"written_by":"kafkaprod doctor --produce"}'


class _ProducerIdHandler(ApiHandler[str, None]):
    """A request for a producer id without a transactional id, as sent by idempotent producers."""

    api = ApiKey.INIT_PRODUCER_ID
    retriable_codes = LeaderHandler.retriable_codes | error_codes.COORDINATOR_UNAVAILABLE
    lookup_codes = LeaderHandler.lookup_codes

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """See `ApiHandler`."""
        return init_producer_id_values(None)

    def result(self, key: str, completion: RequestCompletion) -> KeyResult[None]:  # noqa: ARG002
        """See `ApiHandler`."""
        return KeyResult(code=int(completion.response.error_code))


def send_probe(
    client: BlockingClient, topic: str, deadline: float, *, is_idempotent: bool
) -> Finding:
    """Request a producer id, then send the leader a batch that it must reject."""
    if is_idempotent:
        ids = ApiDriver(client, _ProducerIdHandler(), (topic,))
        if not ids.run(deadline):
            return _timeout_finding(client, "InitProducerId", ids.latest_code)
        if code := ids.results[topic].code:
            return _producer_id_finding(topic, code, client.config)
    topic_partition = TopicPartition(topic, 0)
    handler = ProduceHandler(client, _probe_batch(client.clock.wall_ms()), acks=_INVALID_ACKS)
    driver = ApiDriver(client, handler, (topic_partition,), LeaderLookup(client))
    if not driver.run(deadline):
        return _timeout_finding(client, f"Produce to {topic}-0", driver.latest_code)
    result = driver.results[topic_partition]
    return _probe_finding(topic, result.code, str(result.node), client.config)


def _producer_id_finding(topic: str, code: int, config: ClientConfig) -> Finding:
    """Return the finding for an error code from InitProducerId."""
    acls = AclCommandBuilder.of(config)
    if code not in error_codes.AUTHORIZATION_FAILED:
        rejected = errors.ProtocolError(
            "the brokers do not assign a producer id", kafka_error=error_codes.error_name(code)
        )
        return Finding.failure(CheckStep.PRODUCE, rejected)
    write = Acl(AclOperation.WRITE, ResourceType.TOPIC, topic)
    error = errors.AuthorizationError(
        f"the brokers do not assign a producer id to {acls.principal}",
        kafka_error=error_codes.error_name(code),
        hint=f"{capitalized(acls.grant_hint(write))} (enough since Kafka 2.8); earlier brokers "
        f"also need: {acls.grant_hint(Acl(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER))}",
    )
    return Finding.failure(CheckStep.PERMISSIONS, error)


def _probe_finding(topic: str, code: int, node: str, config: ClientConfig) -> Finding:
    """Return the finding for the leader's response to the batch."""
    if code == error_codes.ErrorCode.invalid_required_acks:
        text = (
            f"the leader of {topic}-0 at {node} accepts writes of this client; nothing was written"
        )
        return Finding.ok(CheckStep.PRODUCE, text)
    if code == error_codes.ErrorCode.topic_authorization_failed:
        return denied(Acl(AclOperation.WRITE, ResourceType.TOPIC, topic), code, config, node)
    if not code:
        return Finding.note(
            CheckStep.PRODUCE, f"the server at {node} accepted a record that Kafka's brokers reject"
        )
    error = errors.ProtocolError(
        f"the leader of {topic}-0 does not accept batches",
        topic=topic,
        broker=node,
        kafka_error=error_codes.error_name(code),
    )
    return Finding.failure(CheckStep.PRODUCE, error)


def produce_record(config: ProducerConfig, topic: str, seconds: float) -> Finding:
    """Write one record as a task does, and wait for its delivery. The record stays in the topic."""
    limit = int(seconds * 1000)
    quick = replace(
        config,
        linger_ms=0,
        max_block_ms=min(config.max_block_ms, limit),
        delivery_timeout_ms=min(config.delivery_timeout_ms, limit),
        request_timeout_ms=min(config.request_timeout_ms, limit),
    )
    client = ProducerClient(quick)
    try:
        session = ProducerSession(client)
        try:
            session.append(_probe_rows(topic))
            session.flush()
            report = session.report(TaskAttempt())
        finally:
            session.close()
    except errors.KafkaProdError as error:
        return Finding.failure(CheckStep.PRODUCE, error)
    finally:
        client.close()
    [partition] = report.partitions
    location = f"{partition.topic}-{partition.partition}"
    if partition.first_offset is not None:
        location += f" at offset {partition.first_offset}"
    return Finding.ok(CheckStep.PRODUCE, f"one record with the key {KEY.decode()} is in {location}")


def _timeout_finding(client: BlockingClient, action: str, code: int | None) -> Finding:
    error: errors.BrokerUnavailableError = client.unavailable_error(action, code)
    return Finding.failure(CheckStep.PRODUCE, error)


def _probe_columns() -> Columns:
    return Columns(value=pa.array([_VALUE], pa.binary()), key=pa.array([KEY], pa.binary()))


def _probe_rows(topic: str) -> Rows:
    return Rows(columns=_probe_columns(), topics=(topic,))


def _probe_batch(now_ms: int) -> list[Buffer]:
    encoded = encode_records(_probe_columns(), np.zeros(1, dtype=np.int32))
    data = slice_records(encoded, 0, 1)
    header = BatchHeader(base_timestamp=now_ms, max_timestamp=now_ms, record_count=1)
    return [header.pack([data]), data]
