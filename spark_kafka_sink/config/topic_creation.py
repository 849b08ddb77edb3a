"""Options and config for topics that a write creates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_name
from spark_kafka_sink.common.similar_names import MIN_TYPO_RATIO, nearest
from spark_kafka_sink.config.option_definition import boolean_field, int_field, names_in, options_of
from spark_kafka_sink.config.option_parser import is_number, not_allowed_error
from spark_kafka_sink.config.units import unit_of

if TYPE_CHECKING:
    from collections.abc import Mapping


CREATE = "topic.create"
_PARTITIONS = "topic.partitions"
_REPLICATION = "topic.replication.factor"
CONFIG_PREFIX = "topic.config."
"""Prefix of the topic's settings."""

TOPIC_SETTINGS = names_in(
    """
    cleanup.policy compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
    follower.replication.throttled.replicas index.interval.bytes
    leader.replication.throttled.replicas local.retention.bytes local.retention.ms
    max.compaction.lag.ms max.message.bytes message.downconversion.enable message.format.version
    message.timestamp.after.max.ms message.timestamp.before.max.ms
    message.timestamp.difference.max.ms message.timestamp.type min.cleanable.dirty.ratio
    min.compaction.lag.ms min.insync.replicas preallocate remote.log.copy.disable
    remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms segment.bytes
    segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable
    """
)
"""Kafka's topic settings, including those of releases before 4.0. Brokers of other vendors have
additional settings. Source: ``TopicConfig``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCreation:
    """The settings of created topics. A field is None if the broker's default applies."""

    create: bool = boolean_field(CREATE, False)
    """Create missing topics: the topic and the dead letter topic before any task, topics of a topic
    column when they first appear. Prefix configs of the topics with `topic.config.`, for example
    `topic.config.retention.ms`; they do not apply to the dead letter topic.
    """
    partitions: int | None = int_field(_PARTITIONS, 0, field_default=None)
    """Number of partitions of a created topic; 0: the brokers' default, which is also used for the
    dead letter topic.
    """
    replication_factor: int | None = int_field(_REPLICATION, 0, high=32_767, field_default=None)
    """Replication factor of a created topic; 0: the brokers' default."""
    configs: tuple[tuple[str, str], ...] = ()
    """Settings of the topics, by Kafka's names, in sorted order."""

    @classmethod
    def from_options(cls, values: Mapping[str, Any], user_options: Mapping[str, str]) -> Self:
        """Build the config from the parsed sink options and the topic settings in `user_options`.

        Raises:
            ConfigError: an option is set although topic.create is false, or a duration or size
                among the topics' settings is not a number.
        """
        configs = {
            name.removeprefix(CONFIG_PREFIX): value.strip()
            for name, value in user_options.items()
            if name.startswith(CONFIG_PREFIX)
        }
        for name, value in configs.items():
            _check_typo(name)
            _check_unit(name, value)
        settings = [name for name in (_PARTITIONS, _REPLICATION) if values[name]]
        settings += [f"{CONFIG_PREFIX}{name}" for name in configs]
        if not values[CREATE]:
            if settings:
                raise ConfigError(
                    f"option {settings[0]} is set, but {CREATE} is false",
                    hint=f'Add .option("{CREATE}", "true"), or remove this option.',
                )
            return cls()
        return cls(
            create=True,
            partitions=values[_PARTITIONS] or None,
            replication_factor=values[_REPLICATION] or None,
            configs=tuple(sorted(configs.items())),
        )


TOPIC_CREATION_OPTIONS = options_of(TopicCreation)


def _check_typo(name: str) -> None:
    """Raise if an unknown setting resembles a Kafka setting; others might be a vendor's settings.

    Raises:
        ConfigError: the name is a likely typo.
    """
    suggestion = None if name in TOPIC_SETTINGS else nearest(name, TOPIC_SETTINGS, MIN_TYPO_RATIO)
    if suggestion is not None:
        raise ConfigError(
            f"unknown option {CONFIG_PREFIX}{safe_name(name)}",
            hint=f"Did you mean {CONFIG_PREFIX}{suggestion}?",
        )


def _check_unit(name: str, value: str) -> None:
    """Raise if a duration or size is not a plain number. The brokers' error would be unclear.

    Raises:
        ConfigError: the value is not a whole number.
    """
    unit = unit_of(name) if name in TOPIC_SETTINGS else None
    if unit is not None and not is_number(value):
        allowed = f"an integer, in {unit.words}"
        raise not_allowed_error(f"{CONFIG_PREFIX}{name}", value, allowed, unit.hint(value))
