"""An option's value that is masked in all texts, or a reference to the value."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from pathlib import Path

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_file, safe_variable

ENVIRONMENT = "env:"
"""Prefix of the name of the environment variable that contains the value."""
FILE = "file:"
"""Prefix of the path of the file that contains the value. A byte order mark at the start of the
file and one line break at the end are ignored.
"""
_LITERAL = "literal:"
"""Prefix of a literal value; required if the value starts with `env:`, `file:` or `literal:`."""


@dataclass(frozen=True, slots=True)
class Secret:
    """An option's value, or a reference to the value: `env:NAME` or `file:PATH`.

    Text after `literal:` is always the value itself.

    Every call of `reveal` resolves the reference in the calling process. Therefore, only the
    reference is sent to tasks, and a changed file is read again.
    """

    source: str = field(repr=False)
    """The option's text."""
    option: str
    """The option's full name, for error messages."""

    @property
    def is_reference(self) -> bool:
        """True if the text is a reference to the value."""
        return self.source.startswith((ENVIRONMENT, FILE))

    @property
    def file(self) -> str | None:
        """The path of the file that contains the value, or None if the value is not in a file."""
        return self.source.removeprefix(FILE) if self.source.startswith(FILE) else None

    @property
    def exists_on_host(self) -> bool:
        """True if the variable or file exists on this host. The file might be unreadable."""
        if self.source in (ENVIRONMENT, FILE):
            return True  # An empty reference is invalid on every host; `reveal` reports it.
        if self.source.startswith(ENVIRONMENT):
            return self.source.removeprefix(ENVIRONMENT) in os.environ
        if self.file is None:
            return True
        return "\0" not in self.file and os.access(self.file, os.F_OK)

    def reveal(self) -> str:
        """Return the value.

        Raises:
            ConfigError: the environment variable is not set, or the file cannot be read. The
                message contains the host name.
        """
        if self.source in (ENVIRONMENT, FILE):
            kind = "the name of a variable" if self.source == ENVIRONMENT else "a path"
            raise ConfigError(
                f"option {self.option} is {self.source}, which must be followed by {kind}",
                hint=f"If the value itself is {self.source}, write {_LITERAL}{self.source}.",
            )
        if self.source.startswith(ENVIRONMENT):
            return self._from_environment(self.source.removeprefix(ENVIRONMENT))
        if self.source.startswith(FILE):
            return self._from_file(self.source.removeprefix(FILE))
        return self.source.removeprefix(_LITERAL)

    def __str__(self) -> str:
        return "***"

    def _from_environment(self, name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise ConfigError(
                f"option {self.option} refers to {safe_variable(name)}, which is not set on "
                f"{socket.gethostname()}",
                hint="On a cluster, spark.executorEnv sets it for the executors. For the driver "
                "(and in local mode, for everything), it must be set before Spark's JVM starts. Or "
                "use file:PATH.",
            )
        return value

    def _from_file(self, path: str) -> str:
        hint = "The file must be on the driver and on every executor."
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
            return text.removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            reason = "it is not UTF-8"
            hint = "Write text in UTF-8, and certificates and keys as PEM."
        except OSError as error:
            reason = error.strerror or type(error).__name__
        except ValueError:
            reason = "invalid path"
        # The cause is omitted, because a UnicodeDecodeError contains the file's bytes.
        raise ConfigError(
            f"option {self.option} names {safe_file(path)}, which cannot be read on "
            f"{socket.gethostname()}: {reason}",
            hint=hint,
        )
