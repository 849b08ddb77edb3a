"""The embedded broker: the APIs that it serves, its options, the effects of faults."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

from spark_kafka_sink.broker.config import BrokerConfig
from spark_kafka_sink.broker.faults import Effect
from spark_kafka_sink.broker.handlers.registry import HANDLERS
from spark_kafka_sink.cli.broker import BrokerArguments
from tools.docs.markdown import attribute_docs, table

if TYPE_CHECKING:
    from collections.abc import Mapping

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
"""Where an option of the command line has another name than the keyword of `EmbeddedBroker`."""


def api_name(api: Any) -> str:
    """As Kafka writes it, such as InitProducerId."""
    return "".join(word.capitalize() for word in api.name.split("_"))


def render_apis() -> str:
    """Every API with its versions, by name."""
    served = sorted(
        (api_name(handler.api), handler.versions.lowest, handler.versions.highest)
        for handler in HANDLERS.values()
    )
    texts = [f"{name} {low}-{high}" for name, low, high in served]
    return ", ".join(texts) + ".\n"


def render_broker_options() -> str:
    """Each option of `kafkaprod broker` beside its keyword."""
    hints = get_type_hints(BrokerArguments, include_extras=True)
    defaults = {field.name: field for field in fields(BrokerConfig)}
    rows = []
    for field in fields(BrokerArguments):
        keyword = _KEYWORDS.get(field.name, field.name)
        ours = defaults.get(keyword)
        there = _text(field.default)
        here = _text(ours.default) if ours is not None else ""
        both = there if not here or here == there else f"{there}, in Python {here}"
        rows.append(
            (
                f"`--{field.name.replace('_', '-')}`",
                "" if ours is None else f"`{keyword}`",
                both,
                hints[field.name].__metadata__[0].help,
            )
        )
    return table(("command line", "Python", "default", "meaning"), rows)


def _text(value: object) -> str:
    if value is None or value == () or not isinstance(value, str | int):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def render_fault_effects() -> str:
    """Every effect and what it does."""
    docs = attribute_docs(Effect)
    return table(("effect", "what happens"), ((f"`{each}`", docs[each.name]) for each in Effect))
