"""Responses of the fake brokers, as dictionaries."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, as_error_code
from spark_kafka_sink.kafka.protocol.messages import build
from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type
from tools.support.frames import response_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.harness.fake import FakeCluster, Fault, ReceivedProduce


def api_versions(cluster: FakeCluster, _: Any) -> dict[str, Any]:
    ranges = cluster.versions.items()
    keys = [
        {"api_key": int(api), "min_version": span.lowest, "max_version": span.highest}
        for api, span in ranges
    ]
    features = cluster.coordinator.features()
    return {"api_keys": keys, "finalized_features": features, "finalized_features_epoch": 1}


def unsupported(cluster: FakeCluster, correlation_id: int) -> bytes:
    """Return the response to an unsupported version of ApiVersions (KIP-511), in version 0."""
    span = cluster.versions[ApiKey.API_VERSIONS]
    own = {"api_key": 18, "min_version": span.lowest, "max_version": span.highest}
    rejection = {"error_code": ErrorCode.unsupported_version, "api_keys": [own]}
    return response_frame(build(response_type(ApiKey.API_VERSIONS, 0), rejection), correlation_id)


def metadata(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    if cluster.metadata_response_errors:
        return {"error_code": as_error_code(cluster.metadata_response_errors.popleft())}
    names = {topic.name for topic in request.topics}
    cluster.requested_topics.append(names)
    may_create = getattr(request, "allow_auto_topic_creation", True)  # sent since version 4
    if cluster.creates_topics and may_create:
        for name in sorted(names - cluster.ids.keys()):
            cluster.create(name, 1)
    listed = sorted(cluster.listed() - cluster.unlisted_leaders)
    nodes = [{"node_id": n, "host": "127.0.0.1", "port": 40_000 + n} for n in listed]
    denied = cluster.uncreatable - cluster.ids.keys()
    topics = [
        {"name": name, "error_code": ErrorCode.topic_authorization_failed, "partitions": []}
        if may_create and name in denied
        else _describe(cluster, name)
        for name in (topic.name for topic in request.topics)
    ]
    return {
        "throttle_time": timedelta(milliseconds=cluster.throttle_ms),
        "brokers": nodes,
        "cluster_id": "fake",
        "controller_id": 1,
        "topics": topics,
    }


def _describe(cluster: FakeCluster, name: str) -> dict[str, Any]:
    if name in cluster.metadata_errors or name not in cluster.ids:
        code = cluster.metadata_errors.get(name, ErrorCode.unknown_topic_or_partition)
        return {"name": name, "error_code": as_error_code(code), "partitions": []}
    partitions = [
        {
            "partition_index": index,
            "leader_id": log.leader if log.leader in cluster.listed() else -1,
            "leader_epoch": log.leader_epoch,
            "error_code": as_error_code(0 if log.leader in cluster.listed() else 5),
        }
        for (topic, index), log in cluster.logs.items()
        if topic == name
    ]
    topic_id = cluster.stale_topic_ids.get(name, cluster.ids[name])
    return {"name": name, "topic_id": topic_id, "partitions": partitions}


def init_producer_id(cluster: FakeCluster, _: Any) -> dict[str, Any]:
    if cluster.init_errors:
        code = as_error_code(cluster.init_errors.popleft())
        return {
            "throttle_time": timedelta(milliseconds=cluster.throttle_ms),
            "error_code": code,
            "producer_id": -1,
            "producer_epoch": -1,
        }
    cluster.next_producer_id += 1
    return {"producer_id": cluster.next_producer_id, "producer_epoch": 0}


def sasl_handshake(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    if cluster.sasl is None:
        return {"error_code": ErrorCode.illegal_sasl_state}
    return cluster.sasl.handshake(request)


HANDLERS: dict[ApiKey, Callable[[FakeCluster, Any], dict[str, Any]]] = {
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.METADATA: metadata,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.SASL_HANDSHAKE: sasl_handshake,
}


def seen(cluster: FakeCluster, node: int, request: Any, size: int) -> ReceivedProduce:
    from tests.support.harness.fake import ReceivedProduce

    batches = {
        (_name(cluster, topic), data.index): bytes(data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    }
    version = type(request).__version__
    return ReceivedProduce(
        node=node,
        version=version,
        size=size,
        batches=batches,
        acks=int(request.acks),
        transactional_id=request.transactional_id,
    )


def produce(cluster: FakeCluster, node: int, request: Any, fault: Fault) -> dict[str, Any]:
    if fault.forget:
        cluster.forget_producers()
    responses = [
        {
            "name": getattr(topic, "name", ""),
            "topic_id": getattr(topic, "topic_id", None),
            "partition_responses": [
                _partition(
                    cluster,
                    node,
                    (_name(cluster, topic), data.index),
                    data,
                    fault,
                    request.transactional_id,
                )
                for data in topic.partition_data
            ],
        }
        for topic in request.topic_data
    ]
    nodes = [{"node_id": n, "host": "127.0.0.1", "port": 40_000 + n} for n in sorted(cluster.alive)]
    return {
        "responses": responses,
        "throttle_time": timedelta(milliseconds=fault.throttle_ms),
        "node_endpoints": nodes if "current_leader" in fault.extra else [],
    }


def _partition(
    cluster: FakeCluster,
    node: int,
    partition: tuple[str, int],
    data: Any,
    fault: Fault,
    transactional_id: str | None,
) -> dict[str, Any]:
    code, offset = 0, -1
    log = cluster.logs.get(partition)
    if log is None:
        return _error(
            partition[1], ErrorCode.unknown_topic_id if fault.error is None else fault.error
        )
    if fault.error is None and log.leader != node:
        code = ErrorCode.not_leader_or_follower
    elif fault.error is None or fault.append:
        code = cluster.coordinator.check_produced(transactional_id, bytes(data.records), partition)
        if not code:
            code, offset = log.append(bytes(data.records))
    if fault.error is not None:
        code, offset = fault.error, -1
    return {
        "index": partition[1],
        "error_code": as_error_code(code),
        "base_offset": offset,
        "log_append_time": None,
        **fault.extra,
    }


def _error(index: int, code: int) -> dict[str, Any]:
    return {
        "index": index,
        "error_code": as_error_code(code),
        "base_offset": -1,
        "log_append_time": None,
    }


def _name(cluster: FakeCluster, topic: Any) -> str:
    """Return the topic name in a request, or the topic ID if the topic was deleted."""
    known = {number: name for name, number in cluster.ids.items()}
    name: str = getattr(topic, "name", None) or known.get(topic.topic_id, str(topic.topic_id))
    return name
