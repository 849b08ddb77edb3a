"""Options of the formats and of the schema registry."""

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.formats import FieldsInclude, Format, FormatsConfig
from spark_kafka_sink.config.schema_registry import RegistryConfig, SchemaIdFraming, SubjectStrategy
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.formats.encoder_spec import derive_schema
from spark_kafka_sink.formats.registry.subjects import format_subject, subject_of

SERVERS = {"kafka.bootstrap.servers": "a:1", "topic": "t"}
REGISTRY = {"value.format": "avro-confluent", "schema.registry.url": "http://r:8081"}
STRATEGIES = "io.confluent.kafka.serializers.subject."
BASIC: list[dict[str, str]] = [
    {"schema.registry.url": "http://me:pw-1@r:8081"},
    {"basic.auth.user.info": "me:pw-1"},
    {"basic.auth.credentials.source": "SASL_INHERIT"},
]
BEARER: list[dict[str, str]] = [
    {"bearer.auth.token": "pw-2"},
    {"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT"},
]


def formats(**options: str) -> FormatsConfig | None:
    return SinkConfig.parse({**SERVERS, **options}).formats


def parsed_formats(**options: str) -> FormatsConfig:
    parsed = formats(**options)
    assert parsed is not None
    return parsed


def registry(**options: str) -> RegistryConfig:
    parsed = parsed_formats(**{**REGISTRY, **options})
    assert parsed.registry is not None
    return parsed.registry


def rejection_of(**options: str) -> str:
    with pytest.raises(ConfigError) as caught:
        formats(**options)
    return str(caught.value)


def test_no_config_without_formats() -> None:
    assert formats() is None
    assert formats(**{"value.format": "raw", "key.format": "raw"}) is None


def test_fields_are_separated_by_commas_or_semicolons() -> None:
    for text in ("a,b", "a;b", " a , b ,"):
        parsed = parsed_formats(**{"value.format": "json", "value.fields": text})
        assert parsed.value.fields == ("a", "b")
    assert "twice" in rejection_of(**{"value.format": "json", "value.fields": "a,a"})


def test_flink_names_select_the_data() -> None:
    parsed = parsed_formats(
        **{
            "key.format": "json",
            "key.fields": "id",
            "value.format": "json",
            "value.fields-include": "EXCEPT_KEY",
        }
    )
    assert (parsed.key.format, parsed.fields_include) == (Format.JSON, FieldsInclude.EXCEPT_KEY)
    assert "requires key.fields" in rejection_of(
        **{"value.format": "json", "value.fields-include": "EXCEPT_KEY"}
    )


@pytest.mark.parametrize(
    "name", ["schema", "schema.file", "schema.name", "schema.namespace"], ids=str
)
def test_schema_options_need_a_format_with_schemas(name: str) -> None:
    assert "has no schema" in rejection_of(**{"value.format": "json", f"value.{name}": "x"})
    text = rejection_of(**{f"key.{name}": "x"})
    assert "has no schema" in text
    assert "to one of: avro, protobuf, json-confluent" in text


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("name", ["schema", "schema.file", "schema.name"])
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_blank_schemas_are_rejected(part: str, name: str, blank: str) -> None:
    """They are empty files and unset variables, not a wish for a derived schema."""
    options = {f"{part}.format": "avro", f"{part}.fields": "id", f"{part}.{name}": blank}
    assert f"option {part}.{name} is empty" in rejection_of(**options)


def test_schema_is_given_only_once() -> None:
    both = {"value.format": "avro", "value.schema": "{}", "value.schema.file": "f"}
    assert "both set" in rejection_of(**both)


@pytest.mark.parametrize("name", ["a.", ".b", "a..b", "1", "a b", "ä"])
def test_record_names_are_validated(name: str) -> None:
    assert "names separated by" in rejection_of(
        **{"value.format": "avro", "value.schema.name": name}
    )


@pytest.mark.parametrize("format_", ["avro", "protobuf", "json-confluent"])
def test_name_of_a_derived_record_with_its_namespace(format_: str) -> None:
    settings = REGISTRY | {"value.format": format_}
    if not format_.endswith("confluent"):
        del settings["schema.registry.url"]
    space, name = {"value.schema.namespace": "com.shop"}, "value.schema.name"
    assert "both contain a namespace" in rejection_of(
        **settings, **space, **{name: "com.shop.Order"}
    )
    for options in ({name: "com.shop.Order"}, {name: "Order", **space}):
        parsed = parsed_formats(**settings, **options)
        assert parsed.value.full_name == "com.shop.Order"
        assert (parsed.value.record_namespace, parsed.value.record_name) == ("com.shop", "Order")


def test_namespace_applies_to_each_name() -> None:
    names = {"value.schema.name": "R, S,T", "value.schema.namespace": "n.m"}
    parsed = parsed_formats(**{"value.format": "avro", "value.schema": "{}"}, **names)
    assert parsed.value.full_name == "n.m.R,n.m.S,n.m.T"


def test_option_without_effect_is_rejected() -> None:
    assert "neither key nor value is JSON" in rejection_of(
        **{"value.format": "avro", "json.ignoreNullFields": "false"}
    )
    latest = {"auto.register.schemas": "false", "use.latest.version": "true"}
    by_record = {"value.subject.name.strategy": "RecordNameStrategy"}
    space = {"value.schema.namespace": "a"}
    name = {"value.schema.name": "R"}
    for format_ in ("avro", "avro-confluent", "protobuf", "protobuf-confluent", "json-confluent"):
        confluent = REGISTRY | {"value.format": format_}
        if not format_.endswith("confluent"):
            del confluent["schema.registry.url"]
        settings = confluent | {"value.schema": "{}"}
        assert "value.schema.namespace is set, but the schema is not" in rejection_of(
            **settings, **space
        )
        both = {"value.schema.name": "b.R"}
        if format_ == "json-confluent":
            for options in (settings, confluent | latest):
                assert "value.schema.name is set, but the JSON Schema" in rejection_of(
                    **options, **name
                )
            formats(**settings, **name, **by_record)
            continue
        assert "both contain a namespace" in rejection_of(**settings, **both, **space)
        parsed = parsed_formats(**settings, **name, **space)
        assert parsed.value.full_name == "a.R"
    assert "value.schema.namespace is set" in rejection_of(**REGISTRY, **latest, **space)
    formats(**REGISTRY, **latest, **space, **by_record)


def test_registry_options_without_effect_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """Confluent Cloud's files contain the settings of brokers and registry."""
    settings = {
        "kafka.schema.registry.url": "https://registry.example",
        "kafka.basic.auth.credentials.source": "USER_INFO",
        "kafka.basic.auth.user.info": "KEY:sentinel",
    }
    assert SinkConfig.parse(SERVERS | settings) == SinkConfig.parse(SERVERS)
    assert "sentinel" not in caplog.text
    assert [record.getMessage().split()[1] for record in caplog.records] == [
        "basic.auth.credentials.source",
        "basic.auth.user.info",
        "schema.registry.url",
    ]
    caplog.clear()
    registry(**{"key.subject.name.strategy": "RecordNameStrategy"})
    assert [record.getMessage() for record in caplog.records] == [
        "Option key.subject.name.strategy has no effect: key.format uses no registry"
    ]


def test_registry_defaults_match_java() -> None:
    config = registry()
    assert (config.auto_register, config.use_latest, config.normalize) == (True, False, False)
    assert config.value.strategy is SubjectStrategy.TOPIC_NAME
    assert config.value.framing is SchemaIdFraming.PREFIX
    assert (config.user_info, config.bearer, config.tls) == (None, None, None)
    assert "schema.registry.url is required" in rejection_of(**{"value.format": "avro-confluent"})


def test_registry_options_may_have_the_prefix() -> None:
    config = registry(**{"kafka.normalize.schemas": "true"})
    assert config.normalize
    assert "synonyms" in rejection_of(
        **REGISTRY, **{"kafka.schema.registry.url": "http://other:8081"}
    )


@pytest.mark.parametrize("prefix", ["", "kafka."])
def test_registry_options_may_have_the_prefix_of_javas_client(prefix: str) -> None:
    config = registry(
        **{
            f"{prefix}schema.registry.max.retries": "7",
            f"{prefix}schema.registry.basic.auth.user.info": "me:pw",
        }
    )
    assert config.user_info is not None
    assert config.max_retries == 7
    assert registry(**{f"{prefix}schema.registry.bearer.auth.token": "token"}).bearer is not None
    assert "synonyms" in rejection_of(
        **REGISTRY, **{"schema.registry.max.retries": "1", "max.retries": "2"}
    )


def test_classes_with_and_without_package() -> None:
    for prefix in ("", STRATEGIES):
        option = {"value.subject.name.strategy": f"{prefix}RecordNameStrategy"}
        assert registry(**option).value.strategy is SubjectStrategy.RECORD_NAME
    option = {"kafka.key.schema.id.serializer": "HeaderSchemaIdSerializer"}
    assert registry(**option).key.framing is SchemaIdFraming.HEADER


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        (SubjectStrategy.TOPIC_NAME, "orders-key"),
        (SubjectStrategy.RECORD_NAME, "a.Order"),
        (SubjectStrategy.TOPIC_RECORD_NAME, "orders-a.Order"),
    ],
)
def test_subject_strategies_match_java(strategy: SubjectStrategy, subject: str) -> None:
    assert format_subject(strategy, "orders", "key", "a.Order") == subject


@pytest.mark.parametrize("format_", ["avro", "protobuf", "json"])
@pytest.mark.parametrize(
    "names",
    [{}, {"name": "a.R"}, {"name": "R"}, {"namespace": "a.b"}, {"name": "R", "namespace": "a"}],
)
def test_latest_version_has_the_subject_of_the_derived_schema(
    format_: str, names: dict[str, str]
) -> None:
    options = {f"value.schema.{option}": name for option, name in names.items()}
    options |= {"value.format": f"{format_}-confluent", "schema.registry.url": "http://r:8081"}
    options |= {"value.subject.name.strategy": "RecordNameStrategy"}
    part = parsed_formats(**options).value
    type_ = pa.struct([("id", pa.int64())])
    derived = derive_schema(part.format, type_, part.record_name, part.record_namespace)
    config = registry(**options)
    assert subject_of(config, part, "t", derived) == derived.name
    options |= {"auto.register.schemas": "false", "use.latest.version": "true"}
    latest = parsed_formats(**options)
    assert subject_of(registry(**options), latest.value, "t", None) == derived.name


def test_one_option_selects_the_schema() -> None:
    off = {"auto.register.schemas": "false"}
    assert registry(**off, **{"use.latest.version": "true"}).use_latest
    assert registry(**off, **{"use.schema.id": "7"}).schema_id == 7
    assert "takes precedence" in rejection_of(**REGISTRY, **{"use.latest.version": "true"})
    both = {"use.latest.version": "true", "use.schema.id": "7"}
    assert "both set" in rejection_of(**REGISTRY, **off, **both)
    text = {"use.schema.id": "7", "value.schema": "{}"}
    assert "both select the schema" in rejection_of(**REGISTRY, **off, **text)
    keys = {"key.format": "avro-confluent", "key.fields": "id", "use.schema.id": "7"}
    assert "key and value both" in rejection_of(**REGISTRY, **off, **keys)


def test_login_from_options_or_url() -> None:
    config = registry(**{"basic.auth.user.info": "me:pw"})
    assert config.user_info is not None
    assert config.user_info.reveal() == "me:pw"
    config = registry(**{"schema.registry.url": "http://me:p%40w@r:8081"})
    assert config.user_info is not None
    assert config.user_info.reveal() == "me:p@w"
    assert config.url == "http://r:8081"
    assert "requires basic.auth.user.info" in rejection_of(
        **REGISTRY, **{"basic.auth.credentials.source": "USER_INFO"}
    )


@pytest.mark.parametrize("basic", BASIC)
@pytest.mark.parametrize("bearer", BEARER)
def test_password_and_token_contradict(basic: dict[str, str], bearer: dict[str, str]) -> None:
    """Confluent's client would send the password only."""
    registry(**basic)
    registry(**bearer)
    rejection = rejection_of(**{**REGISTRY, **basic, **bearer})
    assert "a password and a token" in rejection
    assert "pw-" not in rejection


@pytest.mark.parametrize("login", BASIC + BEARER)
def test_repr_contains_no_secret(login: dict[str, str]) -> None:
    config = registry(
        **login,
        **{
            "schema.registry.ssl.keystore.location": "/k",
            "schema.registry.ssl.keystore.password": "pw-3",
        },
    )
    assert "pw-" not in repr(config)
    assert config.tls is not None
    assert config.tls.keystore is not None


def test_incomplete_oauth_login_is_rejected() -> None:
    source = {"bearer.auth.credentials.source": "OAUTHBEARER"}
    assert "bearer.auth.issuer.endpoint.url is required" in rejection_of(**REGISTRY, **source)
    login = {
        "bearer.auth.issuer.endpoint.url": "https://issuer/token",
        "bearer.auth.client.id": "id",
        "bearer.auth.client.secret": "secret",
        "bearer.auth.scope": "read",
    }
    bearer = registry(**source, **login).bearer
    assert bearer is not None
    assert bearer.issuer is not None
    assert bearer.issuer.scope == "read"


@pytest.mark.parametrize("url", ["r:8081", "ftp://r", "http://", "http://[r]", "http://r,http://["])
def test_registry_url_is_validated(url: str) -> None:
    assert "not the URL" in rejection_of(**{**REGISTRY, "schema.registry.url": url})
