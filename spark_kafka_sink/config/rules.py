"""Rules that involve several options: contradictions, and defaults that depend on other options.

Source, unless a rule says otherwise: Kafka 4.3's
ProducerConfig.postProcessAndValidateIdempotenceConfigs and KafkaProducer.configureDeliveryTimeout.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    OptionValues = Mapping[str, Any]
    Changes = dict[str, Any]

_IDEMPOTENCE = "enable.idempotence"
IN_FLIGHT = "max.in.flight.requests.per.connection"
_MAX_IN_FLIGHT_IDEMPOTENT = 5
_MAX_MS = 2**31 - 1
_MAX_REQUEST_SIZE = "max.request.size"
_MIN_BATCH_BYTES = 68
"""Size of a batch that contains one empty record, in bytes."""
_MAX_REQUEST_BYTES = 4 << 20
"""Maximum size of a request in bytes. The batches of a request share its fixed costs. A larger
request would not reduce these costs further, but its bytes would occupy the buffer until the
response arrives.
"""


def apply_rules(values: OptionValues, set_options: frozenset[str]) -> Changes:
    """Apply all rules and return the final values; `set_options` are the options that were set.

    Raises:
        ConfigError: two options contradict each other.
    """
    result = dict(values)
    result |= _adjust_idempotence(result, set_options)
    _check_gapless(result)
    result |= _adjust_delivery_timeout(result, set_options)
    result |= _adjust_backoff(result, set_options)
    result |= _adjust_batch_size(result, set_options)
    return result | _limit_times(result)


def _adjust_idempotence(values: OptionValues, set_options: frozenset[str]) -> Changes:
    if not values[_IDEMPOTENCE]:
        return {}
    if values[IN_FLIGHT] > _MAX_IN_FLIGHT_IDEMPOTENT:
        # Java also checks this if idempotence is not set, even if the value of acks disables it.
        raise ConfigError(
            f"option kafka.{IN_FLIGHT} is {values[IN_FLIGHT]}, above {_MAX_IN_FLIGHT_IDEMPOTENT}, "
            "the maximum for an idempotent producer",
            hint=f"Lower it, or set kafka.{_IDEMPOTENCE}=false, which allows duplicates and "
            "reordering.",
        )
    reasons = _against_idempotence(values)
    if reasons and _IDEMPOTENCE in set_options:
        raise ConfigError(
            f"option kafka.{_IDEMPOTENCE} is true, which conflicts with {' and '.join(reasons)}",
            hint=f"Set acks=all and retries above 0, or remove kafka.{_IDEMPOTENCE}.",
        )
    return {_IDEMPOTENCE: not reasons}


def _check_gapless(values: OptionValues) -> None:
    """Require idempotence, as librdkafka does: without it, retries cause gaps and duplicates."""
    if values["enable.gapless.guarantee"] and not values[_IDEMPOTENCE]:
        raise ConfigError(
            "option kafka.enable.gapless.guarantee requires idempotence",
            hint=f"Set acks=all, retries above 0 and kafka.{_IDEMPOTENCE}=true.",
        )


def _against_idempotence(values: OptionValues) -> list[str]:
    reasons = []
    if values["acks"] not in ("all", "-1"):
        reasons.append(f"kafka.acks={values['acks']}")
    if values["retries"] == 0:
        reasons.append("kafka.retries=0")
    return reasons


def _adjust_delivery_timeout(values: OptionValues, set_options: frozenset[str]) -> Changes:
    timeout, linger, request = (
        values[name] for name in ("delivery.timeout.ms", "linger.ms", "request.timeout.ms")
    )
    minimum = min(ceil(linger) + request, _MAX_MS)
    if timeout >= minimum:
        return {}
    if "delivery.timeout.ms" in set_options:
        raise ConfigError(
            f"option kafka.delivery.timeout.ms is {timeout}, less than kafka.linger.ms + "
            f"kafka.request.timeout.ms ({linger} + {request})",
            hint=f"Set it to {minimum} or more, or lower one of the other two options.",
        )
    return {"delivery.timeout.ms": minimum}


def batch_write_linger(values: OptionValues, target: int) -> int:
    """Return the default linger.ms of a batch write: `target`, or less due to delivery.timeout.ms.

    In a batch write, latency does not matter and fuller batches are cheaper. linger.ms plus
    request.timeout.ms must not exceed delivery.timeout.ms.
    """
    linger: int = values["linger.ms"]
    allowed: int = values["delivery.timeout.ms"] - values["request.timeout.ms"]
    return max(linger, min(target, allowed))


def max_batched_request_size(values: OptionValues, set_options: frozenset[str]) -> int:
    """Return the maximum size of a request with several batches, in bytes.

    If max.request.size is set, it is the maximum, as in Java. Its default is the brokers' limit for
    a single batch; the brokers' limit for a request is higher. If a broker nevertheless has a lower
    limit, it closes the connection, and the requests in flight are lost. With idempotence, this is
    harmless, because brokers drop duplicates of a resent batch. Without idempotence, batches would
    be duplicated or lost, so Java's default applies.
    """
    largest_record: int = values[_MAX_REQUEST_SIZE]
    if _MAX_REQUEST_SIZE in set_options or not values[_IDEMPOTENCE]:
        return largest_record
    return max(largest_record, _MAX_REQUEST_BYTES)


def _adjust_backoff(values: OptionValues, set_options: frozenset[str]) -> Changes:
    """Use a constant backoff if no maximum is set (postProcessReconnectBackoffConfigs)."""
    changes = {"retry.backoff.ms": min(values["retry.backoff.ms"], values["retry.backoff.max.ms"])}
    reconnect, longest = values["reconnect.backoff.ms"], values["reconnect.backoff.max.ms"]
    if "reconnect.backoff.ms" in set_options and "reconnect.backoff.max.ms" not in set_options:
        longest = reconnect
    return changes | {
        "reconnect.backoff.ms": min(reconnect, longest),
        "reconnect.backoff.max.ms": longest,
    }


def _adjust_batch_size(values: OptionValues, set_options: frozenset[str]) -> Changes:
    """Check that a batch fits into the buffer, or lower the default of batch.size.

    Java's producer fails only when the first record is sent.
    """
    batch, buffer = values["batch.size"], values["buffer.memory"]
    if buffer < _MIN_BATCH_BYTES:
        raise ConfigError(
            f"option kafka.buffer.memory is {buffer}, but the smallest batch (one empty record) "
            f"needs {_MIN_BATCH_BYTES} bytes",
            hint="Set the size in bytes, or remove the option.",
        )
    if batch <= buffer:
        return {}
    if "batch.size" in set_options:
        raise ConfigError(
            f"option kafka.batch.size is {batch}, more than kafka.buffer.memory, {buffer}",
            hint="Raise kafka.buffer.memory or lower kafka.batch.size.",
        )
    return {"batch.size": buffer}


def _limit_times(values: OptionValues) -> Changes:
    """Limit times to 24 days, which every timer accepts.

    The limit also replaces Java's value -1, which means never.
    """
    times = {name: value for name, value in values.items() if name.endswith(".ms")}
    return {name: _MAX_MS if value < 0 else min(value, _MAX_MS) for name, value in times.items()}
