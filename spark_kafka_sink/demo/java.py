"""Whether Spark will find a Java that it can run on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from spark_kafka_sink.common.errors import ConfigError

LEAST_JAVA = 17
NEEDED = (
    f"Java {LEAST_JAVA} or newer is needed to run Spark: install a JRE and put java on the PATH"
)


def find_java() -> str | None:
    """Path of `java` as Spark looks for it: in JAVA_HOME where that is set, else on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


def require_java() -> None:
    """Check that there is a Java for Spark, which itself would fail much less clearly.

    Raises:
        ConfigError: there is none, or it is too old.
    """
    java = find_java()
    if java is None:
        raise ConfigError(f"{NEEDED} (none was found)")
    printed = subprocess.run(  # noqa: S603 - the user's own java
        [java, "-version"], capture_output=True, text=True, check=False
    ).stderr
    found = major_version(printed)
    if found is None or found < LEAST_JAVA:
        raise ConfigError(f"{NEEDED} ({java} is version {found or 'unknown'})")


def major_version(printed: str) -> int | None:
    """17 from what `java -version` prints, 8 from its old style 1.8; None where none is named."""
    matched = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(matched.group(1)) if matched else None
