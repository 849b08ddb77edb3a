"""Check that the client may use transactional ids with the prefix, as exactly-once requires.

Brokers do not report the authorized operations on transactional ids as they do for topics
(KIP-430). Instead, the check asks the coordinator of an unused id to abort a transaction. The
coordinator checks the authorization first, and there is nothing to abort. Unlike InitProducerId,
this leaves no state on the brokers.

Source: ``KafkaApis.handleEndTxnRequest``, ``TransactionCoordinator.endTransaction``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.common.errors import AuthorizationError, KafkaProdError
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.diagnostics.examination import step_of_error
from spark_kafka_sink.diagnostics.finding import Finding, Step
from spark_kafka_sink.diagnostics.topics import guide_of
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.protocol.transactions import OpenTransaction, TransactionVersion
from spark_kafka_sink.security.acl import Acl, Operation, ResourceType

if TYPE_CHECKING:
    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.config.model import SinkConfig

_NAME: Final = "kafkaprod-doctor"
"""Suffix after the prefix in the unused id. No scope has this name."""
_DENIED: Final = ErrorCode.transactional_id_authorization_failed
_ALLOWED: Final = frozenset({ErrorCode.none, ErrorCode.invalid_producer_id_mapping})


def judge_transactional_ids(
    client: BlockingClient, config: SinkConfig, seconds: float
) -> list[Finding]:
    """Return a finding if the write is exactly-once and the result is conclusive."""
    wanted = config.exactly_once
    if not wanted.exactly_once or config.dry_run:
        return []
    prefix = acl_prefix(wanted.transactional_id_prefix)
    nobody = OpenTransaction(
        transactional_id=f"{prefix}{_NAME}", producer_id=0, epoch=0, version=TransactionVersion.V1
    )
    try:
        codes = TransactionAdmin(client).end(
            [nobody], commit=False, deadline=client.deadline(seconds)
        )
    except KafkaProdError as error:
        return [Finding.warning(step_of_error(error), error, local=True)]
    code = codes[nobody.transactional_id]
    guide = guide_of(config.producer)
    acl = Acl(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, prefix, prefixed=True)
    if code in _ALLOWED:
        return [Finding.ok(Step.PERMISSIONS, f"{acl} is allowed to {guide.principal}")]
    if code != _DENIED:
        return []
    denied = AuthorizationError(
        f"{acl} is denied to {guide.principal}", error=error_name(code), hint=guide.grant(acl)
    )
    return [Finding.failure(Step.PERMISSIONS, denied)]
