"""Field numbers of `google/protobuf/descriptor.proto`, whose messages describe Protobuf schemas.

The names begin with the message: FILE for `FileDescriptorProto`, and so on.
"""

from __future__ import annotations

from typing import Final

SET_FILE: Final = 1

FILE_NAME: Final = 1
FILE_PACKAGE: Final = 2
FILE_IMPORT: Final = 3
FILE_MESSAGE: Final = 4
FILE_ENUM: Final = 5
FILE_EXTENSION: Final = 7
FILE_PUBLIC_IMPORT: Final = 10
"""The index of an import."""
FILE_SYNTAX: Final = 12
FILE_EDITION: Final = 14
FILE_OPTION_IMPORT: Final = 15
"""An import of options, since edition 2024."""

MESSAGE_NAME: Final = 1
MESSAGE_FIELD: Final = 2
MESSAGE_NESTED: Final = 3
MESSAGE_ENUM: Final = 4
MESSAGE_EXTENSION_RANGE: Final = 5
MESSAGE_EXTENSION: Final = 6
MESSAGE_OPTIONS: Final = 7
MESSAGE_ONEOF: Final = 8
MESSAGE_RESERVED_RANGE: Final = 9
MESSAGE_RESERVED_NAME: Final = 10

RANGE_START: Final = 1
RANGE_END: Final = 2

FIELD_NAME: Final = 1
FIELD_NUMBER: Final = 3
FIELD_LABEL: Final = 4
FIELD_TYPE: Final = 5
FIELD_TYPE_NAME: Final = 6
FIELD_OPTIONS: Final = 8
FIELD_ONEOF_INDEX: Final = 9
FIELD_PROTO3_OPTIONAL: Final = 17

ONEOF_NAME: Final = 1

ENUM_NAME: Final = 1
ENUM_VALUE: Final = 2
ENUM_VALUE_NAME: Final = 1
ENUM_VALUE_NUMBER: Final = 2

FIELD_OPTIONS_PACKED: Final = 2
MESSAGE_OPTIONS_MAP_ENTRY: Final = 7

# The numbers of the options, and of the features in the options.
FILE_FEATURES: Final = (8, 50)
MESSAGE_FEATURES: Final = (MESSAGE_OPTIONS, 12)
FIELD_FEATURES: Final = (FIELD_OPTIONS, 21)
ONEOF_FEATURES: Final = (2, 1)
ENUM_FEATURES: Final = (3, 7)
