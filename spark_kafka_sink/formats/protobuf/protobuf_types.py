"""The types and labels of Protobuf fields."""

from __future__ import annotations

from enum import IntEnum


class ProtoType(IntEnum):
    """``FieldDescriptorProto.Type``."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    """A message between a start tag and an end tag."""
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


class ProtoLabel(IntEnum):
    """``FieldDescriptorProto.Label``."""

    OPTIONAL = 1
    REQUIRED = 2
    REPEATED = 3
