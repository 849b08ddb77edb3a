"""Planning of an exactly-once write on the driver.

Planning finishes earlier decisions. It fences no other driver, except with atomicBatch=true: in
that case, it begins the single transaction of the batch. Spark plans and commits in different
processes.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.enums import SummaryMode
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.exactly_once.scope_state import NoDecision
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    ScopeKind,
    WriteDestination,
    new_nonce,
)
from spark_kafka_sink.spark.exactly_once.completion import ExactlyOnceCompletion
from spark_kafka_sink.spark.exactly_once.exactly_once_plan import ExactlyOncePlan
from spark_kafka_sink.spark.exactly_once.transaction_timeouts import transaction_timeout_ms
from spark_kafka_sink.spark.exactly_once.transactional_task import TransactionalTaskWriter
from spark_kafka_sink.spark.reports.planning_file import PlanningData
from spark_kafka_sink.spark.runtime import internals
from spark_kafka_sink.spark.runtime.log_lines import log_success
from spark_kafka_sink.spark.runtime.worker_context import with_shipped_files
from spark_kafka_sink.spark.writers.write_completion import WriteJob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles

_ASYNC_PROGRESS = "asyncProgressTrackingEnabled"
"""Option of Spark's ``AsyncProgressTrackingMicroBatchExecution``, which starts a batch before the
previous batch is recorded.
"""
_LOG = logging.getLogger(__name__)
_WITHOUT_BATCH_ID = (
    "exactly once without batchId: all rows or none are written, but a run of this job after a "
    "successful run writes them again. Set batchId to write them once."
)


def plan_write(config: SinkConfig, roles: ColumnRoles, origin: WriteOrigin) -> WriteJob:
    """Plan a batch write, after finishing any decision of the batch's earlier runs.

    Raises:
        ConfigError: an option is only for streams.
        KafkaProdError: the decision log cannot be read, or a decision cannot be finished.
    """
    options = config.exactly_once
    if options.reset_transactional_state or options.reset_batch is not None:
        raise ConfigError(
            "option resetTransactionalState is for streams",
            hint="A written batch keeps its batchId: use another batchId.",
        )
    prefix, batch_id = options.transactional_id_prefix, options.batch_id
    target = WriteDestination(topic=config.topic, name=options.write_name)
    scope = Scope.run(prefix) if batch_id is None else Scope.batch(prefix, batch_id, target)
    plan = _new_plan(config, scope)
    task = TransactionalTaskWriter(config, roles, plan, origin)
    if not task.must_write:
        # Planning cannot determine whether foreachBatch of the same query repeats its own batch.
        _LOG.warning(
            "batchId %s was already written %s under transactionalIdPrefix %s: this write adds "
            "nothing, and fails if another query wrote the batch. If these are different rows, use "
            "another batchId, or with a new checkpoint another transactionalIdPrefix",
            batch_id,
            target,
            prefix,
        )
    if (
        batch_id is None
        and config.summary is not SummaryMode.OFF
        and not internals.only_errors_are_logged()
    ):
        log_success(_WITHOUT_BATCH_ID, watched=internals.is_watched())
    completion = ExactlyOnceCompletion(
        config, origin, scope, PlanningData(nonce=plan.nonce, shared=plan.shared)
    )
    return WriteJob(task, completion)


def plan_micro_batch(config: SinkConfig, roles: ColumnRoles, origin: WriteOrigin) -> WriteJob:
    """Plan a micro-batch, after finishing any earlier decision of the stream.

    If the query's last planning was neither committed nor aborted, its transactions are aborted.

    Raises:
        KafkaProdError: the decision log cannot be read, or a decision cannot be finished.
    """
    scope = stream_scope(config)
    plan = _new_plan(config, scope)
    completion = ExactlyOnceCompletion(config, origin, scope)
    # Only the checkpoint identifies the query: Spark never runs two queries with one checkpoint.
    last = origin.planning_file.read_unended() if origin.checkpoint else PlanningData()
    # With a new shared transaction, planning has already fenced the last one.
    if last.nonce is not None and (plan.shared is None or last.shared is None):
        completion.give_up(last)
    origin.planning_file.store(replace(origin.planned, nonce=plan.nonce, shared=plan.shared))
    return WriteJob(TransactionalTaskWriter(config, roles, plan, origin), completion)


def stream_scope(config: SinkConfig) -> Scope:
    """Return the scope of a stream."""
    return Scope.stream(config.exactly_once.transactional_id_prefix)


def check_stream_options(config: SinkConfig, options: Mapping[str, str]) -> None:
    """Raise an error for options that do not apply to a stream or break exactly-once.

    Args:
        config: the sink's settings.
        options: all options of the writer, including Spark's own, by lower-case names.

    Raises:
        ConfigError: `batchId` is set, or asynchronous progress tracking is enabled.
    """
    if options.get(_ASYNC_PROGRESS.lower(), "false").strip().lower() == "true":
        raise ConfigError(
            f"option {_ASYNC_PROGRESS} and deliveryGuarantee=exactly-once cannot be used together: "
            "Spark would plan written batches again with different rows",
            hint="Remove one of them.",
        )
    if config.exactly_once.batch_id is not None:
        raise ConfigError(
            "option batchId is for batch writes: Spark numbers the batches of a stream itself",
            hint="Remove it; with foreachBatch, set it on the write in the function.",
        )


def _new_plan(config: SinkConfig, scope: Scope) -> ExactlyOncePlan:
    options = config.exactly_once
    located = replace(config, producer=with_shipped_files(config.producer))
    committer = BatchCommitter(located, scope)
    timeout_ms = transaction_timeout_ms(located)
    if options.atomic_batch:
        state, shared = committer.begin(timeout_ms)
    else:
        state = committer.recover()
        shared = None
    is_written = scope.kind is ScopeKind.BATCH and not isinstance(state, NoDecision)
    return ExactlyOncePlan(
        scope=scope,
        nonce=new_nonce(),
        state=state,
        has_later_batch=is_written and committer.has_later_batch(),
        timeout_ms=timeout_ms,
        shared=shared,
        reset=options.reset_transactional_state,
        reset_batch=options.reset_batch,
        two_phase=options.two_phase_commit,
    )
