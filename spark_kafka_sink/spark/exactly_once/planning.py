"""Planning on the driver before any task runs: finish earlier decisions, plan the transactions.

Spark plans in other processes than those in which it commits. Planning does not fence anybody,
except with atomicBatch=true, where it begins the one transaction of the batch.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.exactly_once.committer import BatchCommitter
from spark_kafka_sink.exactly_once.transactional_id import Scope, Target, new_nonce
from spark_kafka_sink.spark.exactly_once.task_writer import TransactionalTaskWriter
from spark_kafka_sink.spark.exactly_once.timeouts import transaction_timeout_ms
from spark_kafka_sink.spark.exactly_once.write_plan import WritePlan
from spark_kafka_sink.spark.exactly_once.writers import ExactlyOnceStreamWriter, ExactlyOnceWriter
from spark_kafka_sink.spark.reports.error_file import Planned
from spark_kafka_sink.spark.shipped_files import with_shipped_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.spark.contract import Contract
    from spark_kafka_sink.spark.reports.error_file import WriteOrigin

_ASYNC_PROGRESS: Final = "asyncProgressTrackingEnabled"
"""Of Spark's ``AsyncProgressTrackingMicroBatchExecution``: batches begin before the previous one is
recorded.
"""
_LOG = logging.getLogger("spark_kafka_sink")


def plan_write(config: SinkConfig, contract: Contract, origin: WriteOrigin) -> ExactlyOnceWriter:
    """Return the writer of a batch, after finishing what an earlier run of it had decided.

    Raises:
        ConfigError: an option is only for streams.
        KafkaProdError: the decision log cannot be read, or a decision cannot be finished.
    """
    options = config.exactly_once
    if options.reset_transactional_state or options.reset_batch is not None:
        raise ConfigError(
            "option resetTransactionalState is for streams",
            hint="What a batchId was written under stays written: use another batchId.",
        )
    prefix, batch_id = options.transactional_id_prefix, options.batch_id
    target = Target(topic=config.topic, name=options.write_name)
    scope = Scope.run(prefix) if batch_id is None else Scope.batch(prefix, batch_id, target)
    plan = _plan(config, scope)
    if not plan.must_write(None, scope.name):
        _LOG.warning(
            "batchId %s is already written %s under transactionalIdPrefix %s: nothing will be "
            "written",
            batch_id,
            target,
            prefix,
        )
    return ExactlyOnceWriter(TransactionalTaskWriter(config, contract, plan, origin))


def plan_micro_batch(
    config: SinkConfig, contract: Contract, origin: WriteOrigin
) -> ExactlyOnceStreamWriter:
    """Return the writer for a micro-batch's tasks, after finishing earlier decisions.

    Raises:
        KafkaProdError: the decision log cannot be read, or a decision cannot be finished.
    """
    plan = _plan(config, Scope.stream(config.exactly_once.transactional_id_prefix))
    origin.plan_file.keep(Planned(at=origin.started_at, nonce=plan.nonce, shared=plan.shared))
    task = TransactionalTaskWriter(config, contract, plan, origin)
    return ExactlyOnceStreamWriter(config, task, origin)


def check_stream_options(config: SinkConfig, options: Mapping[str, str]) -> None:
    """Raise for options that do not apply to a stream, or break its guarantee.

    Args:
        config: of the sink.
        options: all options of the writer, including Spark's own, by lower-case names.

    Raises:
        ConfigError: there is a batchId, or asynchronous progress tracking is enabled.
    """
    if options.get(_ASYNC_PROGRESS.lower(), "false").strip().lower() == "true":
        raise ConfigError(
            f"option {_ASYNC_PROGRESS} and deliveryGuarantee=exactly-once contradict each other: "
            "Spark would plan batches anew that are written, with other rows",
            hint="Leave one of them out.",
        )
    if config.exactly_once.batch_id is not None:
        raise ConfigError(
            "option batchId is for batch writes: Spark numbers the batches of a stream itself",
            hint="Leave it out; within foreachBatch give it to the write in there.",
        )


def _plan(config: SinkConfig, scope: Scope) -> WritePlan:
    options = config.exactly_once
    located = replace(config, producer=with_shipped_files(config.producer))
    committer, timeout_ms = BatchCommitter(located, scope), transaction_timeout_ms(located)
    if options.atomic_batch:
        state, shared = committer.begin(timeout_ms)
    else:
        state, shared = committer.recover(), None
    return WritePlan(
        scope=scope,
        nonce=new_nonce(),
        state=state,
        timeout_ms=timeout_ms,
        shared=shared,
        reset=options.reset_transactional_state,
        reset_batch=options.reset_batch,
        two_phase=options.two_phase_commit,
    )
