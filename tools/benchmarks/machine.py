"""The machine and the versions that the figures belong to."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from tools.checks.needs import find_java
from tools.support.jars import KAFKA

_PACKAGES = ("pyspark", "pyarrow", "numpy", "confluent-kafka")
_PRODUCT = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def describe() -> dict[str, str]:
    """Cores, CPU, memory, and the version of everything that takes part."""
    return {
        "cores": str(os.cpu_count()),
        "cpu": _cpu(),
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "java": _java(),
        "kafka": KAFKA.name.removeprefix("kafka-"),
        **{name: version(name) for name in _PACKAGES},
        "load": f"{os.getloadavg()[0]:.2f}",
    }


def one_line(facts: dict[str, str]) -> str:
    """The facts as one line of text."""
    first = f"{facts['cores']} cores, {facts['cpu']}, {facts['memory']}"
    rest = (f"{name} {facts[name]}" for name in ("kafka", "java", "python", *_PACKAGES))
    return f"{first}; {', '.join(rest)}; load average before the start {facts['load']}"


def _cpu() -> str:
    found = _PRODUCT.search(Path("/proc/cpuinfo").read_text())
    return found.group(1) if found else platform.processor() or platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def _java() -> str:
    java = find_java()
    if java is None:
        return "none"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', printed)
    return found.group(1) if found else "unknown"
