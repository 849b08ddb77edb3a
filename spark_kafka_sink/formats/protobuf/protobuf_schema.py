"""The messages and enums of a Protobuf schema, with the encoding of each field.

A schema is a FileDescriptorSet in base64 (google/protobuf/descriptor.proto), main file last.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats.protobuf import protobuf_descriptor as descriptor
from spark_kafka_sink.formats.protobuf.protobuf_features import (
    EnumType,
    Features,
    MessageEncoding,
    Presence,
    RepeatedEncoding,
)
from spark_kafka_sink.formats.protobuf.protobuf_files import files_of, main_file, scoped_name
from spark_kafka_sink.formats.protobuf.protobuf_types import ProtoLabel, ProtoType
from spark_kafka_sink.formats.protobuf.protobuf_wire import (
    WireMessage,
    parse,
    read_messages,
    read_number,
    read_string,
    read_strings,
)

TIMESTAMP = "google.protobuf.Timestamp"
DURATION = "google.protobuf.Duration"
WRAPPERS = {
    f"google.protobuf.{kind.name.capitalize().replace('Ui', 'UI')}Value": kind
    for kind in (
        ProtoType.DOUBLE,
        ProtoType.FLOAT,
        ProtoType.INT64,
        ProtoType.UINT64,
        ProtoType.INT32,
        ProtoType.UINT32,
    )
    + (ProtoType.BOOL, ProtoType.STRING, ProtoType.BYTES)
}
"""Wrapper messages, which have one field of a plain type."""


@dataclass(frozen=True, slots=True)
class ProtoField:
    """A field of a message."""

    name: str
    """The name, which is the column's name."""
    number: int
    """The number in the encoding."""
    kind: ProtoType
    """The type; GROUP also for delimited messages of editions."""
    type_name: str
    """Full name of the message or enum; empty for other kinds."""
    is_repeated: bool
    """True for lists and maps."""
    is_required: bool
    """True if readers reject messages without the field."""
    is_packed: bool
    """True if the numbers of a list share one tag."""
    oneof: str
    """Name of the oneof of which the field is a member; empty if there is none."""


@dataclass(frozen=True, slots=True)
class ProtoMessage:
    """A message. An entry of a map is a message with the fields `key` and `value`."""

    name: str
    fields: tuple[ProtoField, ...]
    is_map_entry: bool
    reserved: tuple[tuple[int, int], ...] = ()
    """Ranges of numbers that fields cannot have, with their ends excluded: those declared as
    reserved, and those of extensions.
    """
    reserved_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProtoEnum:
    """An enum. Readers of a closed enum drop numbers that it does not declare."""

    numbers: dict[str, int]
    is_closed: bool


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """The messages and enums of a file and of its imports, by full name."""

    messages: dict[str, ProtoMessage]
    enums: dict[str, ProtoEnum]
    main: dict[str, tuple[int, ...]]
    """The positions of the main file's messages, as used in the registry's framing: the position in
    the file, followed by positions within outer messages. As in Java, messages that fields declare
    (entries of maps, groups) are not counted.
    """

    @classmethod
    def parse(cls, text: str) -> ProtoSchema:
        """Parse a schema.

        Raises:
            ConfigError: the text is not a descriptor, or has unsupported features.
        """
        files = files_of(text)
        try:
            main, declared = main_file(files), _Declared({}, {}, {})
            for file in files:
                declared.add_file(parse(file.data), is_main=file is main)
            messages = {name: declared.message(name) for name in declared.messages}
        except (ValueError, TypeError, IndexError, RecursionError):
            raise ConfigError(
                "the Protobuf descriptor is damaged",
                hint="Create one with `protoc --include_imports --descriptor_set_out=FILE`.",
            ) from None
        return cls(messages, declared.enums, declared.main)

    def message(self, name: str | None) -> ProtoMessage:
        """Return the message with this full name, or the first message if the name is None.

        Raises:
            ConfigError: there is no such message.
        """
        if not self.main:
            raise ConfigError(
                "the Protobuf schema has no message", hint="Add the message that is written."
            )
        chosen = name or next(iter(self.main))
        if chosen not in self.main:
            raise ConfigError(
                f"the Protobuf schema has no message {chosen!r}",
                hint=f"It has {', '.join(self.main)}.",
            )
        return self.messages[chosen]


@dataclass(frozen=True, slots=True)
class _Declared:
    """Messages and enums of all files. Fields are read last, because they can refer to any type."""

    messages: dict[str, tuple[WireMessage, Features]]
    """Messages, and the features that their fields inherit."""
    enums: dict[str, ProtoEnum]
    main: dict[str, tuple[int, ...]]

    def add_file(self, file: WireMessage, *, is_main: bool) -> None:
        """Add the messages and enums of a file."""
        features = Features.of_file(file)
        package = read_string(file, descriptor.FILE_PACKAGE)
        groups = _group_names(read_messages(file, descriptor.FILE_EXTENSION))
        messages = read_messages(file, descriptor.FILE_MESSAGE)
        self._add_messages(messages, groups, package, () if is_main else None, features)
        self._add_enums(read_messages(file, descriptor.FILE_ENUM), package, features)

    def message(self, name: str) -> ProtoMessage:
        """Return a message with its fields."""
        message, _ = self.messages[name]
        ranges = read_messages(message, descriptor.MESSAGE_EXTENSION_RANGE)
        ranges += read_messages(message, descriptor.MESSAGE_RESERVED_RANGE)
        fields = read_messages(message, descriptor.MESSAGE_FIELD)
        return ProtoMessage(
            name=name,
            fields=tuple(self._parse_field(name, field) for field in fields),
            is_map_entry=_is_entry(message),
            reserved=tuple(
                (
                    read_number(range_, descriptor.RANGE_START),
                    read_number(range_, descriptor.RANGE_END),
                )
                for range_ in ranges
            ),
            reserved_names=tuple(read_strings(message, descriptor.MESSAGE_RESERVED_NAME)),
        )

    def _add_messages(
        self,
        messages: list[WireMessage],
        groups: set[str],
        scope: str,
        outer_indexes: tuple[int, ...] | None,
        features: Features,
    ) -> None:
        """Add messages of a scope.

        Args:
            messages: the descriptors.
            groups: the names of those that are groups.
            scope: the package or the outer message.
            outer_indexes: the position of the outer message; empty for the main file, None in an
                import.
            features: the features of the scope.
        """
        position = 0
        for message in messages:
            simple_name, below = read_string(message, descriptor.MESSAGE_NAME), None
            name = scoped_name(scope, simple_name)
            message_features = features.with_options(message, descriptor.MESSAGE_FEATURES)
            self.messages[name] = message, message_features
            if outer_indexes is not None and simple_name not in groups and not _is_entry(message):
                below = self.main[name] = (*outer_indexes, position)
                position += 1
            inner_groups = _group_names(
                read_messages(message, descriptor.MESSAGE_FIELD)
                + read_messages(message, descriptor.MESSAGE_EXTENSION)
            )
            nested = read_messages(message, descriptor.MESSAGE_NESTED)
            self._add_messages(nested, inner_groups, name, below, message_features)
            self._add_enums(read_messages(message, descriptor.MESSAGE_ENUM), name, message_features)

    def _add_enums(self, enums: list[WireMessage], scope: str, features: Features) -> None:
        for enum in enums:
            numbers = {
                read_string(value, descriptor.ENUM_VALUE_NAME): read_number(
                    value, descriptor.ENUM_VALUE_NUMBER
                )
                for value in read_messages(enum, descriptor.ENUM_VALUE)
            }
            enum_features = features.with_options(enum, descriptor.ENUM_FEATURES)
            name = scoped_name(scope, read_string(enum, descriptor.ENUM_NAME))
            self.enums[name] = ProtoEnum(
                numbers, is_closed=enum_features.enum_type is EnumType.CLOSED
            )

    def _parse_field(self, owner: str, field: WireMessage) -> ProtoField:
        message, features = self.messages[owner]
        oneof = ""
        is_member = descriptor.FIELD_ONEOF_INDEX in field
        # Not the oneof that `optional` implies.
        if is_member and not read_number(field, descriptor.FIELD_PROTO3_OPTIONAL):
            index = read_number(field, descriptor.FIELD_ONEOF_INDEX)
            parsed = read_messages(message, descriptor.MESSAGE_ONEOF)[index]
            oneof = read_string(parsed, descriptor.ONEOF_NAME)
            features = features.with_options(parsed, descriptor.ONEOF_FEATURES)
        features = features.with_options(field, descriptor.FIELD_FEATURES)
        packed = [
            read_number(options, descriptor.FIELD_OPTIONS_PACKED)
            for options in read_messages(field, descriptor.FIELD_OPTIONS)
            if descriptor.FIELD_OPTIONS_PACKED in options
        ]
        label = read_number(field, descriptor.FIELD_LABEL, ProtoLabel.OPTIONAL)
        is_required = features.presence is Presence.LEGACY_REQUIRED or label == ProtoLabel.REQUIRED
        type_name = self._resolve_type_name(read_string(field, descriptor.FIELD_TYPE_NAME), owner)
        return ProtoField(
            name=read_string(field, descriptor.FIELD_NAME),
            number=read_number(field, descriptor.FIELD_NUMBER),
            kind=self._field_kind(owner, field, type_name, features),
            type_name=type_name,
            is_repeated=label == ProtoLabel.REPEATED,
            is_required=is_required,
            is_packed=bool(packed[-1]) if packed else features.repeated is RepeatedEncoding.PACKED,
            oneof=oneof,
        )

    def _resolve_type_name(self, name: str, scope: str) -> str:
        """Return the full name of a type. Registries also return names relative to a message."""
        if not name or name.startswith("."):
            return name[1:]
        while scope:
            inner = scoped_name(scope, name)
            if inner in self.messages or inner in self.enums:
                return inner
            scope = scope.rpartition(".")[0]
        return name

    def _field_kind(
        self, owner: str, field: WireMessage, type_name: str, features: Features
    ) -> ProtoType:
        # Registries also return descriptors whose fields have the name of a type, but no kind.
        unset = ProtoType.ENUM if type_name in self.enums else ProtoType.MESSAGE
        kind = ProtoType(read_number(field, descriptor.FIELD_TYPE, unset))
        if kind is not ProtoType.MESSAGE or features.message is MessageEncoding.LENGTH_PREFIXED:
            return kind
        # Entries of maps and their values always have a length.
        declared = (self.messages.get(name) for name in (owner, type_name))
        is_in_map = any(_is_entry(message[0]) for message in declared if message)
        return ProtoType.MESSAGE if is_in_map else ProtoType.GROUP


def _is_entry(message: WireMessage) -> bool:
    return any(
        read_number(options, descriptor.MESSAGE_OPTIONS_MAP_ENTRY)
        for options in read_messages(message, descriptor.MESSAGE_OPTIONS)
    )


def _group_names(fields: list[WireMessage]) -> set[str]:
    """Return the names of the messages that proto2 groups declare."""
    return {
        read_string(field, descriptor.FIELD_TYPE_NAME).rpartition(".")[2]
        for field in fields
        if read_number(field, descriptor.FIELD_TYPE) == ProtoType.GROUP
    }
