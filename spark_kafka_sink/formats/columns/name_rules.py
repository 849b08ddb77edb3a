"""The names that a format allows for columns and records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ColumnError, ConfigError

if TYPE_CHECKING:
    import re

    from spark_kafka_sink.formats.columns.column_type import ColumnType


@dataclass(frozen=True, slots=True)
class NameRules:
    """The names that a format allows: letters, digits and underscores."""

    format: str
    pattern: re.Pattern[str]
    start: str
    """What the format requires of the first character."""

    def check_record(self, name: str, namespace: str) -> str:
        """Return the full name of a record.

        Raises:
            ConfigError: a part of the name is not allowed.
        """
        for part in (name, *namespace.split(".")) if namespace else (name,):
            if not self.pattern.fullmatch(part):
                raise ConfigError(
                    f"{part!r} is not a valid name in {self.format}",
                    hint=f"Use letters, digits and underscores, and {self.start}.",
                )
        return f"{namespace}.{name}" if namespace else name

    def check_column(self, column: ColumnType) -> None:
        """Check a column's name.

        Raises:
            ColumnError: the format does not allow the name.
        """
        if not self.pattern.fullmatch(column.name):
            raise ColumnError(
                f"column `{column.path}` has a name that {self.format} does not allow",
                hint=f"Rename it to letters, digits and underscores, with {self.start}.",
            )
