"""Features of Protobuf files, messages and fields, which determine how fields are encoded.

A file of an edition sets features as options. In proto2 and proto3, the syntax determines them.
Source: Protocol Buffers, "Feature Settings for Editions".
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats.protobuf import protobuf_descriptor as descriptor
from spark_kafka_sink.formats.protobuf.protobuf_wire import read_messages, read_number, read_string

if TYPE_CHECKING:
    from spark_kafka_sink.formats.protobuf.protobuf_wire import WireMessage

_WITHOUT_EFFECT = frozenset({4, 6, 7, 8})
"""Features that do not affect the encoding: UTF-8 validation, JSON, names, visibility."""
_FIRST_EXTENSION = 1000
"""Extensions from this number on are features of a language's generated code."""
_EDITIONS = {1000: "2023", 1001: "2024"}


class Presence(IntEnum):
    """``FeatureSet.FieldPresence``."""

    EXPLICIT = 1
    IMPLICIT = 2
    LEGACY_REQUIRED = 3


class EnumType(IntEnum):
    """``FeatureSet.EnumType``: readers of a closed enum drop unknown numbers."""

    OPEN = 1
    CLOSED = 2


class RepeatedEncoding(IntEnum):
    """``FeatureSet.RepeatedFieldEncoding``."""

    PACKED = 1
    EXPANDED = 2


class MessageEncoding(IntEnum):
    """``FeatureSet.MessageEncoding``."""

    LENGTH_PREFIXED = 1
    DELIMITED = 2


_FEATURES: dict[int, tuple[str, str, type[IntEnum]]] = {
    1: ("field_presence", "presence", Presence),
    2: ("enum_type", "enum_type", EnumType),
    3: ("repeated_field_encoding", "repeated", RepeatedEncoding),
    5: ("message_encoding", "message", MessageEncoding),
}
"""Features by number in ``FeatureSet``: the name there, and the field of `Features`."""


@dataclass(frozen=True, slots=True)
class Features:
    """The features that affect the encoding; by default those of editions."""

    presence: Presence = Presence.EXPLICIT
    enum_type: EnumType = EnumType.OPEN
    repeated: RepeatedEncoding = RepeatedEncoding.PACKED
    message: MessageEncoding = MessageEncoding.LENGTH_PREFIXED

    @classmethod
    def of_file(cls, file: WireMessage) -> Features:
        """Return the features of a FileDescriptorProto.

        Raises:
            ConfigError: the edition or a feature is unknown.
        """
        syntax = read_string(file, descriptor.FILE_SYNTAX) or "proto2"
        edition = read_number(file, descriptor.FILE_EDITION)
        if syntax == "proto2":
            return cls(enum_type=EnumType.CLOSED, repeated=RepeatedEncoding.EXPANDED)
        if syntax == "proto3":
            return cls(presence=Presence.IMPLICIT)
        if edition not in _EDITIONS:
            name = read_string(file, descriptor.FILE_NAME)
            raise ConfigError(
                f"the Protobuf file {name} has the unsupported edition {edition}",
                hint=f"Use proto2, proto3, or an edition of {', '.join(_EDITIONS.values())}.",
            )
        return cls().with_options(file, descriptor.FILE_FEATURES)

    def with_options(self, owner: WireMessage, numbers: tuple[int, int]) -> Features:
        """Return the features of a part of a file, which inherits the ones that it does not set.

        Args:
            owner: the descriptor of the part.
            numbers: the field numbers of its options, and of the features in the options.

        Raises:
            ConfigError: a feature is unknown.
        """
        merged = self
        options, features = numbers
        for chosen in read_messages(owner, options):
            for feature_set in read_messages(chosen, features):
                for number, values in feature_set.items():
                    merged = merged._with_feature(number, values[-1])
        return merged

    def _with_feature(self, number: int, value: Any) -> Features:
        if number >= _FIRST_EXTENSION or number in _WITHOUT_EFFECT:
            return self
        name: str | int = number
        if number in _FEATURES:
            name, field, kind = _FEATURES[number]
            with suppress(ValueError):
                changes: dict[str, Any] = {field: kind(value)}
                return replace(self, **changes)
        raise ConfigError(
            f"the Protobuf schema sets the feature {name} to the unsupported value {value!r}",
            hint="Remove the feature, or upgrade spark-kafka-sink.",
        )
