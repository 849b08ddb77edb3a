"""Rules across options: what contradicts what, and which default gives way. All are pure.

The rules are those of Kafka 4.3's ProducerConfig.postProcessAndValidateIdempotenceConfigs and
KafkaProducer.configureDeliveryTimeout, unless a rule says otherwise.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    Values = Mapping[str, Any]
    Changes = dict[str, Any]

IDEMPOTENCE = "enable.idempotence"
IN_FLIGHT = "max.in.flight.requests.per.connection"
MAX_IN_FLIGHT_IDEMPOTENT = 5
MAX_MS = 2**31 - 1
MAX_REQUEST_SIZE = "max.request.size"
SMALLEST_BATCH = 68
"""Bytes of a batch with one empty record."""
LARGEST_REQUEST = 4 << 20
"""Bytes. What a request takes to be put together and answered is shared by its batches; above this
nothing more is won, and as much stays in the buffer until the answer."""


def apply_rules(values: Values, given: frozenset[str]) -> Changes:
    """Settle what the options mean together; `given` are those not left to their defaults.

    Raises:
        ConfigError: two options contradict each other.
    """
    settled = dict(values)
    for rule in (_idempotence, _gapless, _delivery_timeout, _backoff, _memory, _longest):
        settled.update(rule(settled, given))
    return settled


def _idempotence(values: Values, given: frozenset[str]) -> Changes:
    if not values[IDEMPOTENCE]:
        return {}
    if values[IN_FLIGHT] > MAX_IN_FLIGHT_IDEMPOTENT:
        # Java asks this even where acks is about to turn an unasked idempotence off.
        raise ConfigError(
            f"option kafka.{IN_FLIGHT} is {values[IN_FLIGHT]}, above {MAX_IN_FLIGHT_IDEMPOTENT}, "
            "the most that an idempotent producer may have",
            hint=f"Lower it, or set kafka.{IDEMPOTENCE}=false, which may reorder and repeat.",
        )
    reasons = _against_idempotence(values)
    if reasons and IDEMPOTENCE in given:
        raise ConfigError(
            f"option kafka.{IDEMPOTENCE} is true, which {' and '.join(reasons)} contradict"
            f"{'s' if len(reasons) == 1 else ''}",
            hint=f"Use acks=all and retries above 0, or leave kafka.{IDEMPOTENCE} out.",
        )
    return {IDEMPOTENCE: not reasons}


def _gapless(values: Values, given: frozenset[str]) -> Changes:
    """As librdkafka: without idempotence a retry may leave gaps and repeats anyway."""
    del given
    if values["enable.gapless.guarantee"] and not values[IDEMPOTENCE]:
        raise ConfigError(
            "option kafka.enable.gapless.guarantee is true without idempotence",
            hint=f"Use acks=all, retries above 0 and kafka.{IDEMPOTENCE}=true with it.",
        )
    return {}


def _against_idempotence(values: Values) -> list[str]:
    reasons = []
    if values["acks"] not in ("all", "-1"):
        reasons.append(f"kafka.acks={values['acks']}")
    if values["retries"] == 0:
        reasons.append("kafka.retries=0")
    return reasons


def _delivery_timeout(values: Values, given: frozenset[str]) -> Changes:
    timeout, linger, request = (
        values[name] for name in ("delivery.timeout.ms", "linger.ms", "request.timeout.ms")
    )
    least = min(ceil(linger) + request, MAX_MS)
    if timeout >= least:
        return {}
    if "delivery.timeout.ms" in given:
        raise ConfigError(
            f"option kafka.delivery.timeout.ms is {timeout}, less than kafka.linger.ms + "
            f"kafka.request.timeout.ms ({linger} + {request})",
            hint=f"Set it to {least} or more, or lower one of the two.",
        )
    return {"delivery.timeout.ms": least}


def longest_linger(values: Values, wanted: int) -> int:
    """linger.ms of a batch write that sets none: as long as `wanted` where it may.

    Nobody sees such a write before its end, and full batches cost less; linger.ms and
    request.timeout.ms together stay within delivery.timeout.ms.
    """
    linger: int = values["linger.ms"]
    allowed: int = values["delivery.timeout.ms"] - values["request.timeout.ms"]
    return max(linger, min(wanted, allowed))


def largest_request(values: Values, given: frozenset[str]) -> int:
    """Bytes of a request of several batches: max.request.size, as in Java, where it is given.

    Its default is what brokers take of one batch; of a request they take more. One that takes less
    is found out by a request that is lost with what was sent before it, which costs nothing where
    no broker takes a batch twice: without idempotence it would be repeated, or be gone.
    """
    largest_record: int = values[MAX_REQUEST_SIZE]
    if MAX_REQUEST_SIZE in given or not values[IDEMPOTENCE]:
        return largest_record
    return max(largest_record, LARGEST_REQUEST)


def _backoff(values: Values, given: frozenset[str]) -> Changes:
    """A pause given alone is constant (Java's postProcessReconnectBackoffConfigs)."""
    changes = {"retry.backoff.ms": min(values["retry.backoff.ms"], values["retry.backoff.max.ms"])}
    reconnect, longest = values["reconnect.backoff.ms"], values["reconnect.backoff.max.ms"]
    if "reconnect.backoff.ms" in given and "reconnect.backoff.max.ms" not in given:
        longest = reconnect
    return changes | {
        "reconnect.backoff.ms": min(reconnect, longest),
        "reconnect.backoff.max.ms": longest,
    }


def _memory(values: Values, given: frozenset[str]) -> Changes:
    """A record and a batch must fit into the buffer; Java fails at the first record."""
    batch, buffer = values["batch.size"], values["buffer.memory"]
    if buffer < SMALLEST_BATCH:
        raise ConfigError(
            f"option kafka.buffer.memory is {buffer}: no record fits, as a batch of one empty "
            f"record has {SMALLEST_BATCH} bytes",
            hint="Give the size in bytes, or leave the option out.",
        )
    if batch <= buffer:
        return {}
    if "batch.size" in given:
        raise ConfigError(
            f"option kafka.batch.size is {batch}, more than kafka.buffer.memory, {buffer}",
            hint="Raise kafka.buffer.memory or lower kafka.batch.size.",
        )
    return {"batch.size": buffer}


def _longest(values: Values, given: frozenset[str]) -> Changes:
    """Java's "never" and Long.MAX_VALUE become 24 days, which every timer of the system takes."""
    del given
    times = {name: value for name, value in values.items() if name.endswith(".ms")}
    return {name: MAX_MS if value < 0 else min(value, MAX_MS) for name, value in times.items()}
