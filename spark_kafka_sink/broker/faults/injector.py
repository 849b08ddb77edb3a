"""The effects of injected faults on requests and responses.

They take effect on the thread that owns the cluster's state, after requests are decoded and before
they are authorized.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from spark_kafka_sink.broker.faults.fault import FaultEffect, RequestPartition, RequestProperties
from spark_kafka_sink.broker.requests import shapes
from spark_kafka_sink.broker.requests.purgatory import DelayedOperation
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, UnknownErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.cluster.cluster import Cluster
    from spark_kafka_sink.broker.faults.armed_faults import Faults
    from spark_kafka_sink.broker.faults.fault import Fault
    from spark_kafka_sink.broker.handlers.request_context import RequestContext
    from spark_kafka_sink.broker.net.response_channel import ResponseChannel
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.requests.shapes import PartitionShape
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_ERRORS_ARE_ADDED = frozenset({ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS})
"""APIs whose injected errors are added to the handler's response, because clients need its other
fields.
"""


class FaultInjector:
    """Applies faults to requests before they reach their handlers."""

    def __init__(self, cluster: Cluster, faults: Faults) -> None:
        self._cluster = cluster
        self._faults = faults

    @property
    def is_active(self) -> bool:
        """True if a fault is armed."""
        return bool(self._faults)

    def serve(self, channel: ResponseChannel, context: RequestContext) -> None:
        """Apply the faults that a request triggers, and handle it unless a fault prevents this.

        Raises:
            ProtocolError: the connection must be closed.
        """
        if not self._faults:
            channel.handle(context)
            return
        request = RequestProperties(
            api=context.api,
            node=context.node,
            client_id=context.client_id,
            partitions=_partitions_of(context),
        )
        triggered = self._faults.triggered_by(request)
        delay_ms = sum(fault.value for fault in triggered if fault.effect is FaultEffect.DELAY)
        if not delay_ms:
            self._apply_faults(channel, context, triggered)
            return
        self._cluster.purgatory.add(
            DelayedOperation(
                deadline=self._cluster.clock.monotonic() + delay_ms / 1000,
                on_complete=lambda: self._apply_after_delay(channel, context, triggered),
                is_abandoned=context.is_closed,
            )
        )

    def _apply_after_delay(
        self, channel: ResponseChannel, context: RequestContext, triggered: list[Fault]
    ) -> None:
        try:
            self._apply_faults(channel, context, triggered)
        except Exception as error:  # noqa: BLE001 - other clients must not be affected
            channel.fail(error)
        channel.resume()

    def _apply_faults(
        self, channel: ResponseChannel, context: RequestContext, triggered: list[Fault]
    ) -> None:
        effects = {fault.effect for fault in triggered}
        for fault in triggered:
            self._apply_to_cluster(fault, context)
        if context.is_closed() or FaultEffect.LOSE_REQUEST in effects:
            return
        if FaultEffect.CLOSE in effects:
            raise ProtocolError("an injected fault closed the connection")
        channel.is_lost = FaultEffect.LOSE_RESPONSE in effects
        for fault in triggered:
            if fault.effect is FaultEffect.CUT:
                channel.cut = fault.value
            elif fault.effect is FaultEffect.THROTTLE:
                channel.response_transforms.append(_throttle_transform(fault.value))
        errors = [fault for fault in triggered if fault.effect is FaultEffect.ERROR]
        if errors:
            self._fail_request(channel, context, errors[0])
        else:
            channel.handle(context)

    def _apply_to_cluster(self, fault: Fault, context: RequestContext) -> None:
        """Apply a fault that changes the cluster, before the request is handled."""
        cluster = self._cluster
        match fault.effect:
            case FaultEffect.STOP:
                cluster.node_control.stop(fault.value)
            case FaultEffect.START:
                cluster.node_control.start(fault.value)
            case FaultEffect.PAUSE:
                cluster.node_control.pause(fault.value)
            case FaultEffect.LAG:
                cluster.node_control.set_all_lags(fault.value / 1000)
            case FaultEffect.CLOCK:
                cluster.clock.jump(fault.value)
            case FaultEffect.MOVE:
                for partition in self._affected_partitions(fault, context):
                    self._move_leader(partition, fault.value)
            case FaultEffect.FORGET:
                for partition in self._affected_partitions(fault, context):
                    partition.forget_producers()
            case _:
                pass

    def _move_leader(self, partition: Partition, node: int) -> None:
        active = self._cluster.node_control.active()
        candidates = [node_id for node_id in (*partition.replicas, *active) if node_id in active]
        leader = node or next((node_id for node_id in candidates if node_id != partition.leader), 0)
        if leader:
            self._cluster.elections.move(partition, leader)

    def _affected_partitions(self, fault: Fault, context: RequestContext) -> list[Partition]:
        affected = []
        for named in _partitions_of(context):
            topic = self._cluster.topics.named(named.topic)
            if topic is not None and fault.covers(named):
                indexes = {named.partition, fault.partition} - {None}  # if empty, all
                affected += [known for known in topic.partitions if indexes <= {known.index}]
        return affected

    def _fail_request(
        self, channel: ResponseChannel, context: RequestContext, fault: Fault
    ) -> None:
        error = _error_code(fault.value)
        api = context.api
        request = context.request
        shape = shapes.BY_PARTITION.get(api)
        if api == ApiKey.PRODUCE and request.acks == 0:
            raise ProtocolError("an injected fault failed a request that has no response")
        if api in _ERRORS_ARE_ADDED:
            channel.response_transforms.append(lambda values: _with_error(values, fault, error))
            channel.handle(context)
        elif shape is not None and getattr(request, shape.topics, None):
            self._fail_partitions(channel, context, fault, shape)
        else:
            channel.send(shapes.failed_items(api, request, error) or {"error_code": error})

    def _fail_partitions(
        self, channel: ResponseChannel, context: RequestContext, fault: Fault, shape: PartitionShape
    ) -> None:
        def is_failed(item: Any, partition: Any) -> bool:
            index = shape.index_of(partition)
            return fault.covers(RequestPartition(context.topic_name(item), index))

        remaining, failed_request = shapes.split_request(shape, context.request, is_failed)
        add = shapes.failed_adder(shape, failed_request, _error_code(fault.value))
        if not getattr(remaining, shape.topics):
            channel.send(add({shape.response_topics: []}))
            return
        channel.response_transforms.append(add)
        channel.handle(context._replace(request=remaining))


def _error_code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:  # Codes that are missing from ErrorCode are sent as numbers.
        return cast("ErrorCode", UnknownErrorCode(number))


def _with_error(values: FieldValues, fault: Fault, error: ErrorCode) -> FieldValues:
    """Return a Metadata response with an error for the topics or the partition of the fault."""
    topics = [_topic_with_error(topic, fault, error) for topic in values["topics"]]
    return {**values, "topics": topics}


def _topic_with_error(topic: FieldValues, fault: Fault, error: ErrorCode) -> FieldValues:
    if fault.topic is not None and fault.topic != topic["name"]:
        return topic
    if fault.partition is None:
        return {**topic, "error_code": error}
    partitions = [
        {**partition, "error_code": error}
        if partition["partition_index"] == fault.partition
        else partition
        for partition in topic.get("partitions", ())
    ]
    return {**topic, "partitions": partitions}


def _partitions_of(context: RequestContext) -> tuple[RequestPartition, ...]:
    """Return the topics and partitions in a request."""
    shape = shapes.BY_PARTITION.get(context.api)
    request = context.request
    if shape is None:
        topics = getattr(request, "topics", None) or getattr(request, "topic_names", None) or ()
        return tuple(RequestPartition(context.topic_name(item), None) for item in topics)
    return tuple(
        RequestPartition(context.topic_name(item), shape.index_of(partition))
        for item in getattr(request, shape.topics, None) or ()
        for partition in getattr(item, shape.partitions)
    )


def _throttle_transform(milliseconds: int) -> Callable[[FieldValues], FieldValues]:
    return lambda values: {**values, "throttle_time": timedelta(milliseconds=milliseconds)}
