"""Tables of options, profiles, and the names of options that are ignored or rejected."""

from collections.abc import Iterable
from functools import cache

from spark_kafka_sink.config.aliases import ALIASES
from spark_kafka_sink.config.client_config import ClientConfig
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
from spark_kafka_sink.config.enums import ProfileName
from spark_kafka_sink.config.exactly_once import ExactlyOnceConfig
from spark_kafka_sink.config.formats import FormatsConfig
from spark_kafka_sink.config.known_options import IGNORED_LIBRDKAFKA_KEYS, IGNORED_PRODUCER_KEYS
from spark_kafka_sink.config.option_definition import Option, Value, declared_options
from spark_kafka_sink.config.option_tables import (
    PRODUCER_OPTIONS,
    SINK_OPTIONS,
    ProducerOptions,
    WriteOptions,
)
from spark_kafka_sink.config.profiles import load_profile
from spark_kafka_sink.config.schema_registry import REGISTRY_PREFIX, RegistryConfig
from spark_kafka_sink.config.security.security_names import (
    IGNORED_BROKER_SECURITY_KEYS,
    IGNORED_JAVA_SECURITY_KEYS,
    IGNORED_LIBRDKAFKA_SECURITY_KEYS,
    REJECTED_SECURITY_KEYS,
    SECURITY_ALIASES,
)
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS, SecurityOptions
from spark_kafka_sink.config.throttling import BreakerConfig, RateLimits, ThrottlingConfig
from spark_kafka_sink.config.topic_creation import TopicCreation
from tools.docs.pages import attribute_docs, table

_PREFIX = "kafka."
_TABLES = (
    ClientConfig,
    ProducerOptions,
    SecurityOptions,
    WriteOptions,
    FormatsConfig,
    RegistryConfig,
    TopicCreation,
    ExactlyOnceConfig,
    DeadLetterPolicy,
    ThrottlingConfig,
    RateLimits,
    BreakerConfig,
)
_COLUMNS = ("option", "default", "allowed", "meaning")
MAIN = (
    "kafka.bootstrap.servers",
    "topic",
    "kafka.acks",
    "kafka.compression.type",
    "kafka.linger.ms",
    "kafka.batch.size",
    "kafka.delivery.timeout.ms",
    "kafka.security.protocol",
    "profile",
    "reportPath",
    "useTimestampColumn",
    "errors.tolerance",
    "errors.deadletterqueue.topic.name",
)
"""The options in the README's table."""


def render_main_options() -> str:
    """Return a table of the most common options."""
    known = {option.name: option for option in SINK_OPTIONS}
    known |= {_PREFIX + option.name: option for option in (*PRODUCER_OPTIONS, *SECURITY_OPTIONS)}
    rows = ((f"`{name}`", _ours(known[name]), _meaning(known[name])) for name in MAIN)
    return table(("option", "default", "meaning"), rows)


def render_sink_options() -> str:
    """Return a table of the sink's own options."""
    return table(_COLUMNS, (_option_row(option) for option in SINK_OPTIONS))


def render_security_options() -> str:
    """Return a table of the TLS and SASL options; their defaults are Java's."""
    return table(_COLUMNS, (_option_row(option, _PREFIX) for option in SECURITY_OPTIONS))


def render_options() -> str:
    """Return a table of the producer's options."""
    heading = ("option", "default here", "Java's default", "allowed", "meaning")
    rows = []
    for option in PRODUCER_OPTIONS:
        name, ours, *rest = _option_row(option, _PREFIX)
        rows.append(
            (name, ours, _default(option.java_default) if option.is_java_option else "", *rest)
        )
    return table(heading, rows)


def _option_row(option: Option, prefix: str = "") -> tuple[str, ...]:
    return f"`{prefix}{option.name}`", _ours(option), _allowed(option), _meaning(option)


def _meaning(option: Option) -> str:
    docs = _option_docs()
    return docs.get(option.name) or docs[option.name.removeprefix(REGISTRY_PREFIX)]


@cache
def _option_docs() -> dict[str, str]:
    """Return the docstrings of all options by the option's name."""
    return {
        option.name: attribute_docs(table)[attribute]
        for table in _TABLES
        for attribute, option in declared_options(table).items()
    }


def render_other_names() -> str:
    """Return tables of librdkafka's option aliases, ignored options, and rejected options."""
    aliases = (
        (f"`{_PREFIX}{name}`", f"`{_PREFIX}{alias.option}`{', in KiB' * (alias.unit == 1024)}")
        for name, alias in sorted({**ALIASES, **SECURITY_ALIASES}.items())
    )
    ignored = IGNORED_PRODUCER_KEYS | IGNORED_JAVA_SECURITY_KEYS
    of_librdkafka = IGNORED_LIBRDKAFKA_KEYS | IGNORED_LIBRDKAFKA_SECURITY_KEYS
    reasons = sorted(set(REJECTED_SECURITY_KEYS.values()))
    refused = (
        f"- {_listed(name for name, why in REJECTED_SECURITY_KEYS.items() if why == reason)}: "
        f"{reason}"
        for reason in reasons
    )
    return "\n".join(
        (
            table(("librdkafka's name", "equivalent option"), aliases),
            "Accepted with a warning, but without effect:",
            "",
            f"- options of Java's producer: {_listed(ignored)}",
            f"- options of librdkafka: {_listed(of_librdkafka)}",
            f"- options of brokers: {_listed(IGNORED_BROKER_SECURITY_KEYS)}",
            "",
            "Rejected:",
            "",
            *refused,
            "",
        )
    )


def render_profiles() -> str:
    """Return a table of the options in each profile; a cell is empty if the default applies."""
    profiles = [profile for profile in ProfileName if profile is not ProfileName.NONE]
    values = [load_profile(profile) for profile in profiles]
    options = [row for row in PRODUCER_OPTIONS if any(row.name in settings for settings in values)]
    rows = (
        (
            f"`{_PREFIX}{option.name}`",
            _defaults(option),
            *(
                f"`{settings[option.name]}`" if option.name in settings else ""
                for settings in values
            ),
        )
        for option in options
    )
    return table(("option", "default", *(f"`{profile}`" for profile in profiles)), rows)


def _ours(option: Option) -> str:
    text = _defaults(option)
    return text if option.sink_default is None else f"**{text}**"


def _defaults(option: Option) -> str:
    text = _default(option.default)
    if option.batch_write is None:
        return text
    return f"{text}, in batch writes {_default(option.batch_write)}"


def _allowed(option: Option) -> str:
    open_ended = option.is_number and option.high is None
    return f"{option.low} or more" if open_ended else option.allowed


def _default(value: Value) -> str:
    if value is None:
        return "none"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "empty"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{_PREFIX}{name}`" for name in sorted(names))
