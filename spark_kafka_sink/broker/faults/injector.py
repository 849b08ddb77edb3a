"""Applies the faults that are armed to requests, to their responses and to the cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, cast

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.faults.fault import Effect, Fault, RequestInfo, RequestPartition
from spark_kafka_sink.broker.faults.request_partitions import partitions_of
from spark_kafka_sink.broker.purgatory import DelayedOperation
from spark_kafka_sink.broker.requests.message_shapes import BY_PARTITION
from spark_kafka_sink.broker.requests.partial import (
    failed_adder,
    failed_items,
    index_of,
    topic_name,
    without,
)
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol.error_codes import UnknownErrorCode
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.faults.faults import Faults
    from spark_kafka_sink.broker.handlers.request_context import RequestContext
    from spark_kafka_sink.broker.net.response_channel import ResponseChannel
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.requests.message_shapes import PartitionShape
    from spark_kafka_sink.protocol.message_builder import Values

_WHOLE_ANSWER_NEEDED: Final = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS})
"""Errors are written into the answers of these APIs: clients need the rest of them."""


class FaultInjector:
    """Applies faults to requests on their way to their handlers."""

    __slots__ = ("_cluster", "_faults")

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults

    @property
    def is_active(self) -> bool:
        """Whether a fault is armed."""
        return bool(self._faults)

    def serve(self, channel: ResponseChannel, context: RequestContext) -> None:
        """Handle a request, with the faults that it triggers.

        Raises:
            ProtocolError: the connection has to end.
        """
        if not self._faults:
            channel.handle(context)
            return
        info = RequestInfo(
            api=channel.api,
            node=context.node,
            client_id=context.client_id,
            partitions=partitions_of(channel.api, context.request, self._name_of),
        )
        triggered = self._faults.triggered_by(info)
        late = sum(fault.value for fault in triggered if fault.effect is Effect.DELAY)
        if not late:
            self._go_on(channel, context, triggered)
            return
        self._cluster.purgatory.add(
            DelayedOperation(
                deadline=self._cluster.clock.monotonic() + late / 1000,
                try_complete=lambda: False,
                on_complete=lambda: self._resume(channel, context, triggered),
                is_abandoned=context.is_closed,
            )
        )

    def _resume(
        self, channel: ResponseChannel, context: RequestContext, triggered: list[Fault]
    ) -> None:
        try:
            self._go_on(channel, context, triggered)
        except ProtocolError:
            channel.end()
        channel.went_on()

    def _go_on(
        self, channel: ResponseChannel, context: RequestContext, triggered: list[Fault]
    ) -> None:
        effects = {fault.effect for fault in triggered}
        for fault in triggered:
            self._apply_to_cluster(fault, channel.api, context)
        if context.is_closed() or Effect.LOSE_REQUEST in effects:
            return
        if Effect.CLOSE in effects:
            raise ProtocolError("a fault ends the connection")
        channel.lost = Effect.LOSE_RESPONSE in effects
        for fault in triggered:
            if fault.effect is Effect.CUT:
                channel.cut = fault.value
            elif fault.effect is Effect.THROTTLE:
                channel.changes.append(_throttled(fault.value))
        errors = [fault for fault in triggered if fault.effect is Effect.ERROR]
        if errors:
            self._fail(channel, context, errors[0])
        else:
            channel.handle(context)

    def _apply_to_cluster(self, fault: Fault, api: int, context: RequestContext) -> None:
        """What happens to the cluster before the request is handled."""
        cluster = self._cluster
        match fault.effect:
            case Effect.STOP:
                cluster.node_control.stop(fault.value)
            case Effect.START:
                cluster.node_control.start(fault.value)
            case Effect.PAUSE:
                cluster.node_control.pause(fault.value)
            case Effect.LAG:
                cluster.node_control.set_all_lags(fault.value / 1000)
            case Effect.CLOCK:
                cluster.clock.jump(fault.value)
            case Effect.MOVE:
                for partition in self._affected(fault, api, context):
                    self._move(partition, fault.value)
            case Effect.FORGET:
                for partition in self._affected(fault, api, context):
                    partition.forget_producers()
            case _:
                pass

    def _move(self, partition: Partition, node: int) -> None:
        living = self._cluster.node_states.active()
        others = [n for n in (*partition.replicas, *living) if n in living]
        leader = node or next((n for n in others if n != partition.leader), 0)
        if leader:
            self._cluster.elections.move(partition, leader)

    def _affected(self, fault: Fault, api: int, context: RequestContext) -> list[Partition]:
        found = []
        for named in partitions_of(api, context.request, self._name_of):
            topic = self._cluster.topics.named(named.topic)
            if topic is not None and fault.covers(named):
                some = [p for p in topic.partitions if named.partition in {None, p.index}]
                found += [p for p in some if fault.partition in {None, p.index}]
        return found

    def _fail(self, channel: ResponseChannel, context: RequestContext, fault: Fault) -> None:
        error, api, request = _code(fault.value), channel.api, context.request
        shape = BY_PARTITION.get(api)
        if api == ApiKey.PRODUCE and request.acks == 0:
            raise ProtocolError("a request without an answer fails, so the connection ends")
        if api in _WHOLE_ANSWER_NEEDED:
            channel.changes.append(lambda values: _overlaid(values, fault, error))
            channel.handle(context)
        elif shape is not None and getattr(request, shape.topics, None):
            self._fail_partitions(channel, context, fault, shape)
        else:
            channel.send(failed_items(api, request, error) or {"error_code": error})

    def _fail_partitions(
        self,
        channel: ResponseChannel,
        context: RequestContext,
        fault: Fault,
        shape: PartitionShape,
    ) -> None:

        def is_out(item: Any, one: Any) -> bool:
            name = topic_name(item, self._name_of)
            return fault.covers(RequestPartition(name, index_of(shape, one)))

        rest = without(shape, context.request, is_out)
        failed = without(shape, context.request, lambda item, one: not is_out(item, one))
        add = failed_adder(shape, failed, _code(fault.value))
        if not getattr(rest, shape.topics):
            channel.send(add({shape.answers: []}))
            return
        if channel.api == ApiKey.FETCH:
            rest = replace(rest, max_wait=timedelta(0))
        channel.changes.append(add)
        channel.handle(context._replace(request=rest))

    def _name_of(self, topic_id: UUID) -> str | None:
        topic = self._cluster.topics.with_id(topic_id)
        return topic.name if topic else None


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # A code that ErrorCode lacks is sent as a bare number.
        return cast("ErrorCode", UnknownErrorCode(number))


def _overlaid(values: Values, fault: Fault, error: ErrorCode) -> Values:
    """Metadata in which the topic, or the partition that the fault names, has an error."""
    return {**values, "topics": [_marked(topic, fault, error) for topic in values["topics"]]}


def _marked(topic: Values, fault: Fault, error: ErrorCode) -> Values:
    if fault.topic not in {None, topic["name"]}:
        return topic
    if fault.partition is None:
        return {**topic, "error_code": error}
    partitions = [
        {**one, "error_code": error} if one["partition_index"] == fault.partition else one
        for one in topic.get("partitions", ())
    ]
    return {**topic, "partitions": partitions}


def _throttled(milliseconds: int) -> Callable[[Values], Values]:
    return lambda values: {**values, "throttle_time": timedelta(milliseconds=milliseconds)}
