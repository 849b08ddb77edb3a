"""Options and config of exactly-once writes.

Each task of a write leaves its rows in an open transaction, and the driver commits or aborts all
transactions together. The decision is recorded in a separate topic, the decision log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option_definition import (
    boolean_field,
    enum_field,
    fields_of,
    int_field,
    long_field,
    options_of,
    text_field,
)
from spark_kafka_sink.config.option_parser import check_topic, conflict_error, not_allowed_error

if TYPE_CHECKING:
    from collections.abc import Mapping

DECISION_LOG_TOPIC = "__kafkaprod_decisions"
TRANSACTION_TIMEOUT = "transaction.timeout.ms"
_MAX_PREFIX = 200
_MAX_BATCH_ID = 200
"""Maximum length of a prefix and of a batch id, in characters."""
_PREFIX = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)
_ATOMIC_CONFLICTS = {
    "twoPhaseCommit": "a single transaction cannot be partially committed and needs no second "
    "phase",
    "errors.deadletterqueue.topic.name": "only one task may write to a partition, but several "
    "tasks could write dead letters to the same partition",
}
"""Options that cannot be combined with atomicBatch, and why."""
_GUARANTEE_HINT = 'Add .option("deliveryGuarantee", "exactly-once"), or remove this option.'


class DeliveryGuarantee(StrEnum):
    """Values of deliveryGuarantee; the names are Flink's."""

    AT_LEAST_ONCE = "at-least-once"
    """If Spark retries a task or a batch, its rows are written again."""
    EXACTLY_ONCE = "exactly-once"
    """A read_committed reader sees each batch exactly once, even if Spark retries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactlyOnceConfig:
    """The config built from the options.

    With `AT_LEAST_ONCE`, all other fields have default values.
    """

    guarantee: DeliveryGuarantee = enum_field("deliveryGuarantee", DeliveryGuarantee.AT_LEAST_ONCE)
    """exactly-once: write rows in transactions, so that read_committed consumers see each batch
    once, even if Spark retries tasks or batches.
    """
    transactional_id_prefix: str = text_field("transactionalIdPrefix", None, field_default="")
    """Prefix of the transactional ids of this stream or job. Required with exactly-once; keep it
    for the lifetime of the stream or job, and do not share it with other streams or jobs. Up to 200
    letters, digits, '.', '_' and '-'.
    """
    batch_id: str | None = text_field("batchId", None)
    """Batch writes with exactly-once: id of the data. If a write is repeated with the same id, it
    writes nothing and logs a message.
    """
    write_name: str | None = text_field("writeName", None)
    """Name that distinguishes writes with the same transactionalIdPrefix and batchId to the same
    topic, or with a topic column. Not needed if each write sets a different `topic`.
    """
    reset_transactional_state: bool = text_field(
        "resetTransactionalState", "false", field_default=False
    )
    """true: let a stream with a new checkpoint reuse the prefix, starting with batch 0; earlier
    decisions of the prefix are discarded. A number: accept this batch although the decision log has
    no decisions of earlier batches, for example because the log was lost.
    """
    decision_log_topic: str = text_field("decisionLogTopic", DECISION_LOG_TOPIC)
    """Compacted topic that stores the decisions; created if missing."""
    decision_log_replication_factor: int = int_field("decisionLogReplicationFactor", 0, high=32_767)
    """Replication factor of the decision log topic if it is created; 0: three, or the number of
    brokers if there are fewer.
    """
    decision_log_retention_ms: int = long_field("decisionLogRetentionMs", -1, low=-1)
    """Retention of decisions in the decision log topic if it is created; a batch that is repeated
    after this time is written again. -1: unlimited.
    """
    two_phase_commit: bool = boolean_field("twoPhaseCommit", False)
    """Use transactions without a timeout (KIP-939), so that no transaction can expire after the
    decision; the brokers must allow such transactions.
    """
    atomic_batch: bool = boolean_field("atomicBatch", False)
    """Use one transaction for all tasks of a batch: a single decision of one broker makes all rows
    visible, so the batch cannot be partially committed. Each topic partition must be written by a
    single task (see spark_kafka_sink.repartition_by_kafka_partition), and failed tasks cannot be
    retried.
    """
    reset_batch: str | None = None
    """Number of the only batch that is accepted without earlier decisions, or None."""
    transaction_timeout_ms: int | None = None
    """The timeout in milliseconds; None for the brokers' maximum (transaction.max.timeout.ms)."""

    @property
    def is_enabled(self) -> bool:
        """True if rows are written in transactions that the driver commits or aborts."""
        return self.guarantee is DeliveryGuarantee.EXACTLY_ONCE

    @classmethod
    def from_options(
        cls, values: Mapping[str, Any], *, is_idempotent: bool, transaction_timeout_ms: int
    ) -> Self:
        """Build the config from the parsed sink options, and from two of the producer's.

        Raises:
            ConfigError: an option is missing or wrong, or two options contradict each other.
        """
        if values["deliveryGuarantee"] != DeliveryGuarantee.EXACTLY_ONCE:
            _check_unused_options(values)
            return cls()
        _check_idempotence(is_idempotent=is_idempotent)
        check_prefix(values["transactionalIdPrefix"])
        check_batch_id(values["batchId"])
        _check_write_name(values["writeName"], values["batchId"])
        reset = _parse_reset(values["resetTransactionalState"])
        _check_decision_log(values["decisionLogTopic"], values)
        _check_atomic(values)
        if values["twoPhaseCommit"] and transaction_timeout_ms:
            raise conflict_error(
                "twoPhaseCommit",
                f"kafka.{TRANSACTION_TIMEOUT}",
                "conflict: a two-phase transaction has no timeout",
            )
        return cls(
            **fields_of(cls, values),
            transactional_id_prefix=values["transactionalIdPrefix"],
            reset_transactional_state=reset == "true",
            reset_batch=reset if reset.isdecimal() else None,
            transaction_timeout_ms=transaction_timeout_ms or None,
        )


EXACTLY_ONCE_OPTIONS = options_of(ExactlyOnceConfig)


def check_prefix(prefix: str | None) -> None:
    """Raise if a transactionalIdPrefix is not valid.

    Letters, digits, ".", "_" and "-" are allowed, as in a topic name. The prefix is part of
    transactional ids, of patterns that list them, and of PREFIXED ACLs.

    Raises:
        ConfigError: the prefix is missing, too long, or has other characters.
    """
    if not prefix:
        raise ConfigError(
            "option transactionalIdPrefix is required with deliveryGuarantee=exactly-once",
            hint="Choose a permanent name for the stream or job that no other stream or job uses.",
        )
    if not _PREFIX.fullmatch(prefix) or len(prefix) > _MAX_PREFIX:
        allowed = f"1 to {_MAX_PREFIX} letters, digits, '.', '_' and '-'"
        raise not_allowed_error("transactionalIdPrefix", prefix, allowed)


def acl_prefix(prefix: str) -> str:
    """Return the common prefix of all transactional ids with this transactionalIdPrefix.

    It can be the resource name of a PREFIXED ACL, because ids with a different
    transactionalIdPrefix do not start with it.
    """
    return f"{prefix}/"


def check_batch_id(batch_id: str | None) -> None:
    """Raise if a batchId is not valid; None is accepted.

    Raises:
        ConfigError: the id is empty, too long, or not printable.
    """
    hint = "Use a permanent name of the data, such as a date or the id of a scheduled run."
    _check_name("batchId", batch_id, hint)


def _check_write_name(name: str | None, batch_id: str | None) -> None:
    _check_name("writeName", name, "Use a description of the rows, such as late-orders.")
    if name is not None and batch_id is None:
        raise ConfigError(
            "option writeName requires batchId",
            hint="It distinguishes writes with the same batchId: also set batchId, or remove "
            "writeName.",
        )


def _check_name(option: str, name: str | None, hint: str) -> None:
    if name is not None and (not 0 < len(name) <= _MAX_BATCH_ID or not name.isprintable()):
        raise not_allowed_error(option, name, f"1 to {_MAX_BATCH_ID} printable characters", hint)


def _parse_reset(value: str) -> str:
    """Parse the option and return "true", "false", or a batch number without leading zeros."""
    text = value.strip().lower()
    if text in {"true", "false"}:
        return text
    if not text.isascii() or not text.isdecimal():
        raise not_allowed_error("resetTransactionalState", value, "true, false or a batch number")
    return str(int(text))


def _check_unused_options(values: Mapping[str, Any]) -> None:
    """Raise if an exactly-once option is set without exactly-once, where it has no effect."""
    for option in EXACTLY_ONCE_OPTIONS:
        if option.name != "deliveryGuarantee" and values[option.name] != option.default:
            raise ConfigError(
                f"option {option.name} is set, but deliveryGuarantee is at-least-once",
                hint=_GUARANTEE_HINT,
            )


def _check_idempotence(*, is_idempotent: bool) -> None:
    """Raise if the producer is not idempotent. Transactions require idempotence."""
    if not is_idempotent:
        raise ConfigError(
            "deliveryGuarantee=exactly-once requires an idempotent producer",
            hint="Remove kafka.acks, kafka.retries and kafka.enable.idempotence, or set "
            "kafka.acks=all, kafka.retries above 0 and kafka.enable.idempotence=true.",
        )


def _check_atomic(values: Mapping[str, Any]) -> None:
    """Raise if atomicBatch is combined with an option that contradicts it."""
    if not values["atomicBatch"]:
        return
    for other, reason in _ATOMIC_CONFLICTS.items():
        if values[other]:
            raise conflict_error("atomicBatch", other, f"conflict: {reason}")


def _check_decision_log(topic: str, values: Mapping[str, Any]) -> None:
    check_topic("decisionLogTopic", topic)
    for other in ("topic", "errors.deadletterqueue.topic.name"):
        if values[other] == topic:
            raise ConfigError(
                f"option decisionLogTopic is {topic}, which is also {other}",
                hint="Use a separate topic for decisions.",
            )
