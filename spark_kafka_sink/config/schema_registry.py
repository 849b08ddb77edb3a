"""Options and config of the schema registry, with Java's names and defaults.

Each option can also be set with the prefix `kafka.`. Only the driver uses the config: it is
removed before the writer is pickled for the tasks.

Source: Confluent's ``AbstractKafkaSchemaSerDeConfig`` and ``SchemaRegistryClientConfig``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self
from urllib.parse import unquote

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.masking import redact_uri
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.option_definition import (
    Option,
    OptionType,
    boolean_field,
    fields_of,
    int_field,
    options_of,
    secret_option,
    text_option,
)
from spark_kafka_sink.config.option_parser import conflict_error, parse_url
from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin, TlsConfig
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from spark_kafka_sink.config.security.security_values import SecurityValues, parse_setting
from spark_kafka_sink.config.security.tls import tls_config

if TYPE_CHECKING:
    from collections.abc import Mapping

URL = "schema.registry.url"
_NO_REGISTRY = "neither value.format nor key.format uses a registry"
REGISTRY_PREFIX = "schema.registry."
"""Prefix of the registry's TLS options, which have the same meaning as those of the brokers. The
names of other options may also have it.
"""
_STRATEGIES = "io.confluent.kafka.serializers.subject."
_FRAMINGS = "io.confluent.kafka.serializers.schema.id."
_TLS_NAMES = (
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.key.password",
)
_LOG = logging.getLogger(__name__)


class SubjectStrategy(Enum):
    """Values of {key,value}.subject.name.strategy, without Java's package."""

    TOPIC_NAME = "TopicNameStrategy"
    RECORD_NAME = "RecordNameStrategy"
    TOPIC_RECORD_NAME = "TopicRecordNameStrategy"


class SchemaIdFraming(Enum):
    """Values of {key,value}.schema.id.serializer, without Java's package."""

    PREFIX = "PrefixSchemaIdSerializer"
    HEADER = "HeaderSchemaIdSerializer"


def _java_class(package: str, default: Enum, **kwargs: Any) -> partial[Option]:
    """Return a function for options that accept Java classes, with or without their package."""
    short = tuple(str(member.value) for member in type(default))
    choices = tuple(f"{package}{name}" for name in short) + short
    return partial(text_option, java_default=f"{package}{default.value}", choices=choices, **kwargs)


_strategy_option = _java_class(_STRATEGIES, SubjectStrategy.TOPIC_NAME)
_framing_option = _java_class(_FRAMINGS, SchemaIdFraming.PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerAuth:
    """A login with a token, which is either given or requested from an OAuth issuer."""

    token: Secret | None = None
    issuer: ClientCredentialsLogin | None = None
    inherits: bool = False
    """True to use the brokers' login."""
    logical_cluster: str | None = None
    identity_pool: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRegistry:
    """The registry settings for the key or the value."""

    strategy: SubjectStrategy = SubjectStrategy.TOPIC_NAME
    framing: SchemaIdFraming = SchemaIdFraming.PREFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """Connection to the registry, and selection of the schema."""

    url: str = field(repr=False)
    """URLs separated by commas, without user names and passwords."""
    schema_registry_url: ClassVar[Option] = text_option(URL, None)
    """URLs of the schema registry, separated by commas; mock://NAME: an in-memory registry for
    tests.
    """
    auto_register: bool = boolean_field("auto.register.schemas", True)
    """Register the schema if the subject does not contain it."""
    use_latest: bool = boolean_field("use.latest.version", False)
    """Serialize with the subject's latest version; requires auto.register.schemas=false."""
    schema_id: int | None = int_field(
        "use.schema.id", -1, low=1, extra_value=-1, field_default=None
    )
    """Serialize with the schema that has this id; -1: not set."""
    normalize: bool = boolean_field("normalize.schemas", False)
    """Normalize schemas when they are registered or looked up."""
    value_subject_name_strategy: ClassVar[Option] = _strategy_option("value.subject.name.strategy")
    """Subject of the value's schema: TOPIC-value, the record's full name, or TOPIC-RECORD."""
    value_schema_id_serializer: ClassVar[Option] = _framing_option("value.schema.id.serializer")
    """Location of the value's schema id: as five bytes before each payload, or as the schema's
    GUID in the header __value_schema_id.
    """
    key_subject_name_strategy: ClassVar[Option] = _strategy_option("key.subject.name.strategy")
    """Subject of the key's schema: TOPIC-key, the record's full name, or TOPIC-RECORD."""
    key_schema_id_serializer: ClassVar[Option] = _framing_option("key.schema.id.serializer")
    """Location of the key's schema id: as five bytes before each payload, or as the schema's
    GUID in the header __key_schema_id.
    """
    basic_auth_credentials_source: ClassVar[Option] = text_option(
        "basic.auth.credentials.source", "URL", choices=("URL", "USER_INFO", "SASL_INHERIT")
    )
    """Source of the user name and password: the URL, basic.auth.user.info (USER_INFO), or the
    brokers' login (SASL_INHERIT).
    """
    basic_auth_user_info: ClassVar[Option] = secret_option("basic.auth.user.info", None)
    """User name and password as NAME:PASSWORD."""
    bearer_auth_credentials_source: ClassVar[Option] = text_option(
        "bearer.auth.credentials.source",
        "STATIC_TOKEN",
        choices=("STATIC_TOKEN", "OAUTHBEARER", "SASL_OAUTHBEARER_INHERIT"),
    )
    """Source of the bearer token: bearer.auth.token (STATIC_TOKEN), an OAuth issuer (OAUTHBEARER),
    or the issuer of the brokers' login (SASL_OAUTHBEARER_INHERIT).
    """
    bearer_auth_token: ClassVar[Option] = secret_option("bearer.auth.token", None)
    """Bearer token."""
    bearer_auth_issuer_endpoint_url: ClassVar[Option] = text_option(
        "bearer.auth.issuer.endpoint.url", None
    )
    """Token endpoint URL of the OAuth issuer."""
    bearer_auth_client_id: ClassVar[Option] = secret_option("bearer.auth.client.id", None)
    """OAuth client id."""
    bearer_auth_client_secret: ClassVar[Option] = secret_option("bearer.auth.client.secret", None)
    """OAuth client secret."""
    bearer_auth_scope: ClassVar[Option] = text_option("bearer.auth.scope", None)
    """Scope of the requested token."""
    bearer_auth_logical_cluster: ClassVar[Option] = text_option("bearer.auth.logical.cluster", None)
    """Logical cluster, sent as target-sr-cluster."""
    bearer_auth_identity_pool_id: ClassVar[Option] = text_option(
        "bearer.auth.identity.pool.id", None
    )
    """Identity pool, sent as Confluent-Identity-Pool-Id."""
    timeout_ms: int = int_field("http.read.timeout.ms", 60_000, low=1)
    """Maximum time to wait for a response."""
    max_retries: int = int_field("max.retries", 3)
    """Maximum retries of a request after a timeout or an HTTP status of 408, 429, 500 or 502 to
    504.
    """
    retries_wait_ms: int = int_field("retries.wait.ms", 1_000)
    """Wait before the first retry; doubled each time."""
    retries_max_wait_ms: int = int_field("retries.max.wait.ms", 20_000)
    """Maximum wait between two retries."""
    key: PartRegistry = PartRegistry()
    value: PartRegistry = PartRegistry()
    user_info: Secret | None = None
    inherits_basic: bool = False
    """True to use the user name and password of the brokers' login."""
    bearer: BearerAuth | None = None
    tls: TlsConfig | None = None

    @property
    def is_mock(self) -> bool:
        """True if the registry is an in-memory registry of the driver process."""
        return self.url.startswith("mock://")

    @property
    def chooses_version(self) -> bool:
        """True if an option selects a registered schema, either by id or as the latest version."""
        return self.use_latest or self.schema_id is not None

    def part(self, part: str) -> PartRegistry:
        """Return the settings of the key or the value."""
        return self.key if part == "key" else self.value

    @classmethod
    def from_options(
        cls, values: Mapping[str, Any], user_options: Mapping[str, str], parts: tuple[str, ...]
    ) -> Self | None:
        """Build the config from the parsed sink options; `parts` are those that use the registry.

        Raises:
            ConfigError: an option is missing or has no effect, or two options contradict each
                other.
        """
        _warn_unused(user_options, parts)
        if not parts:
            return None
        if not values[URL]:
            raise ConfigError(
                f"option {URL} is required by {parts[0]}.format",
                hint=f'Add .option("{URL}", "http://host:8081").',
            )
        _check_url(values[URL])
        _check_choice(values, user_options, parts)
        schema_id = None if values["use.schema.id"] == -1 else values["use.schema.id"]
        config = cls(
            **fields_of(cls, values),
            schema_id=schema_id,
            url=",".join(redact_uri(url.strip()) for url in values[URL].split(",")),
            key=_part_registry(values, "key"),
            value=_part_registry(values, "value"),
            user_info=_user_info(values, user_options),
            inherits_basic=values["basic.auth.credentials.source"] == "SASL_INHERIT",
            bearer=_bearer_auth(values, user_options),
            tls=_registry_tls(user_options),
        )
        if config.bearer is not None and (config.user_info is not None or config.inherits_basic):
            raise ConfigError(
                "the options contain a password and a token for the schema registry",
                hint=f"Remove the basic.auth options and the user name in {URL}, or the "
                "bearer.auth options.",
            )
        return config


REGISTRY_OPTIONS = (
    *options_of(RegistryConfig),
    *(
        replace(security_option, name=f"{REGISTRY_PREFIX}{security_option.name}")
        for security_option in SECURITY_OPTIONS
        if security_option.name in _TLS_NAMES
    ),
)
REGISTRY_NAMES = frozenset(option.name for option in REGISTRY_OPTIONS)
REGISTRY_SECRETS = frozenset(
    registry_option.name
    for registry_option in REGISTRY_OPTIONS
    if registry_option.kind is OptionType.PASSWORD and not registry_option.name.endswith(".id")
)
"""Options whose values are secret."""


def _warn_unused(user_options: Mapping[str, str], parts: tuple[str, ...]) -> None:
    """Warn about registry options without a format that uses them.

    They are not rejected, because files that many clients share contain them.
    """
    reasons = {
        part: f"{part}.format uses no registry" for part in ("key", "value") if part not in parts
    }
    for name in sorted(REGISTRY_NAMES & user_options.keys()):
        reason = reasons.get(name.partition(".")[0]) if parts else _NO_REGISTRY
        if reason is not None:
            warn_once(_LOG, "Option %s has no effect: %s", name, reason)


def _check_url(urls: str) -> None:
    for url in urls.split(","):
        parts = parse_url(url.strip())
        if parts.scheme not in ("http", "https", "mock") or not parts.netloc:
            raise ConfigError(
                f"option {URL} is not the URL of a schema registry",
                hint="Use http://host:port, https://host:port or mock://name.",
            )


def _check_choice(
    values: Mapping[str, Any], user_options: Mapping[str, str], parts: tuple[str, ...]
) -> None:
    """Raise if more than one option selects the schema."""
    use_latest, by_id = values["use.latest.version"], values["use.schema.id"] != -1
    chosen = "use.schema.id" if by_id else "use.latest.version"
    if use_latest and by_id:
        raise conflict_error("use.latest.version", "use.schema.id")
    if by_id and len(parts) > 1:
        raise ConfigError(
            "option use.schema.id is set, but key and value both use the registry",
            hint="The id applies only to the key or to the value. For the other part, set a format "
            "without -confluent and its schema (key.schema or value.schema), or set "
            "use.latest.version=true for both.",
        )
    if (use_latest or by_id) and values["auto.register.schemas"]:
        raise ConfigError(
            f"option {chosen} selects a registered schema, but auto.register.schemas is true, "
            "which takes precedence in Java",
            hint='Add .option("auto.register.schemas", "false").',
        )
    texts = [f"{part}.{name}" for part in parts for name in ("schema", "schema.file")]
    clash = next((name for name in texts if name in user_options), None)
    if (use_latest or by_id) and clash is not None:
        raise conflict_error(chosen, clash, "both select the schema")


def _part_registry(values: Mapping[str, Any], part: str) -> PartRegistry:
    strategy = str(values[f"{part}.subject.name.strategy"]).removeprefix(_STRATEGIES)
    framing = str(values[f"{part}.schema.id.serializer"]).removeprefix(_FRAMINGS)
    return PartRegistry(strategy=SubjectStrategy(strategy), framing=SchemaIdFraming(framing))


def _secret_of(values: Mapping[str, Any], name: str) -> Secret | None:
    return Secret(str(values[name]).strip(), name) if values[name] else None


def _user_info(values: Mapping[str, Any], user_options: Mapping[str, str]) -> Secret | None:
    """Return user name and password, from the option or the URL, as the source option requires."""
    source = values["basic.auth.credentials.source"]
    user_info = _secret_of(values, "basic.auth.user.info")
    if source == "USER_INFO" and user_info is None:
        raise ConfigError(
            "option basic.auth.credentials.source is USER_INFO, which requires "
            "basic.auth.user.info",
            hint='Add .option("basic.auth.user.info", "env:NAME"), or file:PATH.',
        )
    if user_info is not None and source != "USER_INFO":
        if "basic.auth.credentials.source" in user_options:
            raise ConfigError(
                "option basic.auth.user.info is set, but basic.auth.credentials.source is "
                f"{source}",
                hint="Set basic.auth.credentials.source=USER_INFO, or remove basic.auth.user.info.",
            )
        return user_info
    parts = parse_url(str(values[URL]).split(",")[0])
    if user_info is None and source == "URL" and parts.username:
        text = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return Secret(f"literal:{text}", URL)
    return user_info


def _bearer_auth(values: Mapping[str, Any], user_options: Mapping[str, str]) -> BearerAuth | None:
    source = values["bearer.auth.credentials.source"]
    token = _secret_of(values, "bearer.auth.token")
    auth = BearerAuth(
        logical_cluster=values["bearer.auth.logical.cluster"] or None,
        identity_pool=values["bearer.auth.identity.pool.id"] or None,
    )
    if source == "SASL_OAUTHBEARER_INHERIT":
        return replace(auth, inherits=True)
    if source == "STATIC_TOKEN":
        if token is None and "bearer.auth.credentials.source" in user_options:
            raise _missing_error("bearer.auth.token")
        return None if token is None else replace(auth, token=token)
    url = values["bearer.auth.issuer.endpoint.url"]
    client_id = _secret_of(values, "bearer.auth.client.id")
    client_secret = _secret_of(values, "bearer.auth.client.secret")
    if not url:
        raise _missing_error("bearer.auth.issuer.endpoint.url")
    if client_id is None or client_secret is None:
        raise _missing_error(
            "bearer.auth.client.id" if client_id is None else "bearer.auth.client.secret"
        )
    issuer = ClientCredentialsLogin(
        token_endpoint_url=url,
        client_id=client_id,
        client_secret=client_secret,
        scope=values["bearer.auth.scope"] or None,
        tls=_registry_tls(user_options),
    )
    return replace(auth, issuer=issuer)


def _missing_error(option: str) -> ConfigError:
    value = '"env:NAME"), or file:PATH.' if option in REGISTRY_SECRETS else "...)."
    return ConfigError(
        f"option {option} is required by bearer.auth.credentials.source",
        hint=f'Add .option("{option}", {value}',
    )


def _registry_tls(user_options: Mapping[str, str]) -> TlsConfig | None:
    """Return the TLS settings for the registry, or None if no option is set."""
    values = {
        name: parse_setting(
            name, user_options[f"{REGISTRY_PREFIX}{name}"], f"{REGISTRY_PREFIX}{name}"
        )
        for name in _TLS_NAMES
        if f"{REGISTRY_PREFIX}{name}" in user_options
    }
    return tls_config(SecurityValues(values, prefix=REGISTRY_PREFIX)) if values else None
