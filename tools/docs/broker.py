"""Tables of the embedded broker: its APIs, options and faults."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.broker.faults.fault import FaultEffect
from spark_kafka_sink.broker.handlers.served_apis import HANDLERS
from spark_kafka_sink.cli.broker_command import BrokerArguments
from spark_kafka_sink.cli.option_fields import typer_option_of
from tools.docs.pages import attribute_docs, table

_KEYWORDS: Mapping[str, str] = {
    "topic": "topics",
    "topic_config": "topic_configs",
    "fault": "faults",
    "sasl_user": "sasl",
    "sasl_mechanism": "sasl_mechanisms",
    "deny": "denials",
    "oauthbearer_jwks": "oauthbearer_validator",
    "tls_certificate": "tls",
    "tls_key": "tls",
    "tls_key_password": "tls",
    "tls_ca": "tls",
}
"""Command line options whose `EmbeddedBroker` keyword has a different name."""


def api_name(api: Any) -> str:
    """Return the name of an API in Kafka's spelling, such as InitProducerId."""
    return "".join(word.capitalize() for word in api.name.split("_"))


def render_apis() -> str:
    """Return a sorted list of the supported APIs and their versions."""
    served = sorted(
        f"{api_name(handler.api)} {handler.versions.lowest}-{handler.versions.highest}"
        for handler in HANDLERS.values()
    )
    return ", ".join(served) + ".\n"


def render_broker_options() -> str:
    """Return a table of the options of `kafkaprod broker` with their Python keywords."""
    defaults = {field.name: field for field in fields(BrokerConfig)}
    rows = []
    for field in fields(BrokerArguments):
        keyword = _KEYWORDS.get(field.name, field.name)
        ours = defaults.get(keyword)
        there = _code(field.default)
        here = _code(ours.default) if ours is not None else ""
        both = f"{there}, in Python {here}" if there and here and here != there else there
        python = "" if ours is None else f"`{keyword}`"
        meaning = typer_option_of(field).help
        rows.append((f"`--{field.name.replace('_', '-')}`", python, both, meaning))
    return table(("command line", "Python", "default", "meaning"), rows)


def _code(value: object) -> str:
    if value is None or value == () or not isinstance(value, str | int):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def render_fault_effects() -> str:
    """Return a table of the fault effects."""
    docs = attribute_docs(FaultEffect)
    return table(
        ("effect", "what happens"), ((f"`{effect}`", docs[effect.name]) for effect in FaultEffect)
    )
