"""Tables of options, profiles, extras, errors, the embedded broker, reports, and Spark types."""

import datetime as dt
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, replace
from decimal import Decimal
from functools import cache
from inspect import getdoc
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.broker.broker_config import BrokerConfig
from spark_kafka_sink.broker.faults import FaultEffect
from spark_kafka_sink.broker.handlers.api_versions import HANDLERS
from spark_kafka_sink.cli.broker_command import BrokerArguments
from spark_kafka_sink.cli.option_fields import typer_option_of
from spark_kafka_sink.common import errors
from spark_kafka_sink.common.errors import ColumnError, KafkaProdError
from spark_kafka_sink.common.optional_dependencies import EXTRAS
from spark_kafka_sink.config.aliases import ALIASES
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy
from spark_kafka_sink.config.enums import ProfileName
from spark_kafka_sink.config.exactly_once import ExactlyOnceConfig
from spark_kafka_sink.config.formats import Format, FormatsConfig
from spark_kafka_sink.config.option_definition import Option, Value, declared_options
from spark_kafka_sink.config.option_names import IGNORED_LIBRDKAFKA_KEYS, IGNORED_PRODUCER_KEYS
from spark_kafka_sink.config.option_tables import (
    PRODUCER_OPTIONS,
    SINK_OPTIONS,
    ProducerOptions,
    WriteOptions,
)
from spark_kafka_sink.config.profiles import load_profile
from spark_kafka_sink.config.schema_registry import TLS_PREFIX, RegistryConfig
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
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder, derive_schema
from spark_kafka_sink.formats.protobuf.protobuf_schema import ProtoField, ProtoSchema
from spark_kafka_sink.kafka.protocol.error_codes import MAYBE_APPENDED, ErrorCode, error_name
from spark_kafka_sink.producer.row_error import RowError
from spark_kafka_sink.producer.send.error_policy import BatchAction, RejectionFacts, next_step
from spark_kafka_sink.report.bad_row_count import BadRowCount
from spark_kafka_sink.report.codec_cost import CodecCost
from spark_kafka_sink.report.delivery_counters import SLOWEST_KEPT, TASKS_KEPT, DeliveryCounters
from spark_kafka_sink.report.export.java_metrics import Metric, java_metrics
from spark_kafka_sink.report.metrics.producer_metrics import (
    BrokerMetrics,
    ProducerMetrics,
    TopicMetrics,
)
from spark_kafka_sink.report.partition_report import PartitionReport
from spark_kafka_sink.report.task_report import ReportedTransaction, TaskAttempt, TaskReport
from spark_kafka_sink.spark.schema.arrow_schema import arrow_schema
from tools.docs.pages import ROOT, attribute_docs, one_line, table

_PREFIX = "kafka."
_TABLES = (
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
_EVERYWHERE = EXTRAS["spark"].machine
_NAME = re.compile(r"(spark-kafka-sink)?\[?([\w,-]+)")
_USUAL = RejectionFacts(
    is_idempotent=True,
    is_head=True,
    records=2,
    is_possibly_persisted=False,
    is_expired=False,
    has_attempts_left=True,
)
"""A batch of several records of an idempotent producer, sent once and not expired."""
_DOES = {
    BatchAction.COMPLETE: "the batch counts as delivered: the broker already has it",
    BatchAction.REFRESH_AND_RETRY: "metadata is refreshed, then the batch is retried",
    BatchAction.RETRY: "the batch is retried after a backoff",
    BatchAction.SPLIT: "the batch is split and its parts are sent",
    BatchAction.BUMP_AND_RETRY: "the producer epoch is bumped, then the batch is retried",
    BatchAction.FATAL: "the task fails, and its producer ID is discarded",
}
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
_PART = PartitionReport(topic="events", partition=0, persisted=1)
_TASK = TaskReport(duration_ms=1, task=TaskAttempt())
_TRANSACTION = ReportedTransaction(transactional_id="orders", producer_id=1, epoch=0)
_BROKER = BrokerMetrics(node_id=1, name="kafka:9092")
_TOPIC = TopicMetrics(topic="events")
_METRICS = ProducerMetrics(brokers=(_BROKER,), topics=(_TOPIC,), settings=(("buffer.memory", "1"),))
_REPORT = DeliveryReport(partitions=(_PART,), slowest=(_TASK,), metrics=_METRICS)
_WORDS = {"`SLOWEST_KEPT`": f"{SLOWEST_KEPT:,}", "`TASKS_KEPT`": f"{TASKS_KEPT:,}", "None": "null"}
"""Replacements for words in docstrings that do not apply to JSON."""
_INT, _TEXT = types.IntegerType(), types.StringType()
_AT: Final = dt.datetime(2024, 2, 29, 12, 34, 56, 789_012)  # noqa: DTZ001 - for both timestamps
_EXAMPLES: Final[tuple[tuple[types.DataType, Any], ...]] = (
    (types.BooleanType(), True),
    (types.ByteType(), 7),
    (types.ShortType(), 7),
    (types.IntegerType(), 7),
    (types.LongType(), 7),
    (types.FloatType(), 1.5),
    (types.DoubleType(), 1.5),
    (types.DecimalType(9, 2), Decimal("7.00")),
    (types.StringType(), "a"),
    (types.BinaryType(), b"\0\1"),
    (types.DateType(), dt.date(2024, 2, 29)),
    (types.TimestampType(), _AT),
    (types.TimestampNTZType(), _AT),
    (types.DayTimeIntervalType(), dt.timedelta(days=1, seconds=1)),
    (types.YearMonthIntervalType(), None),
    (types.CalendarIntervalType(), None),
    (types.StructType([types.StructField("x", _INT)]), {"x": 7}),
    (types.ArrayType(_INT, containsNull=False), [7]),
    (types.ArrayType(_INT), [7, None]),
    (types.MapType(_TEXT, _INT, valueContainsNull=False), [("k", 7)]),
    (types.MapType(_INT, _TEXT, valueContainsNull=False), [(7, "a")]),
    (types.NullType(), None),
    (types.VariantType(), None),
    (types.GeometryType(0), None),
    (types.GeographyType(4326), None),
)
"""Spark types, each with an example value."""
_UNSUPPORTED: Final = "not supported"


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
    return docs.get(option.name) or docs[option.name.removeprefix(TLS_PREFIX)]


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


def render_extras() -> str:
    """Return a list of the extras in `pyproject.toml`, except the development extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = [("none", "writing, and the embedded broker", project["dependencies"], _EVERYWHERE)]
    rows += [
        (f"`{name}`", extra.purpose, project["optional-dependencies"][name], extra.machine)
        for name, extra in EXTRAS.items()
    ]
    return table(
        ("extra", "for", "brings", "where"),
        ((name, purpose, _brought(needs), place) for name, purpose, needs, place in rows),
    )


def _brought(requirements: list[str]) -> str:
    """Return the names of required distributions; extras of this package are formatted as code."""
    names: list[str] = []
    for requirement in requirements:
        match = _NAME.match(requirement)
        if match is None:
            raise ValueError(f"no requirement: {requirement}")
        own, name = match.groups()
        names += [f"`{extra}`" for extra in name.split(",")] if own else [name]
    return ", ".join(names)


def render_error_classes() -> str:
    """Return a table of the error classes with the first sentences of their docstrings."""
    rows = (
        (f"`{error_class.__name__}`", one_line((getdoc(error_class) or "").split("\n\n")[0]))
        for error_class in vars(errors).values()
        if isinstance(error_class, type) and issubclass(error_class, KafkaProdError)
    )
    return table(("error", "meaning"), rows)


def render_row_errors() -> str:
    """Return a table of the reasons why a row cannot be written."""
    flaws = [flaw for flaw in RowError if flaw is not RowError.NONE]
    rows = (
        (f"`{flaw.name}`", flaw.message, f"`{flaw.error_class.rpartition('.')[2]}`")
        for flaw in flaws
    )
    return table(("reason", "meaning", "error without tolerance"), rows)


def render_broker_errors() -> str:
    """Return a table of the producer's reactions to Produce errors; other errors fail the batch."""
    names: dict[BatchAction, list[str]] = {action: [] for action in _DOES}
    for code in ErrorCode:
        action = next_step(code.value, _USUAL).action
        if code.value != 0 and action in names:
            names[action].append(f"`{error_name(code.value)}`")
    gap = ErrorCode.out_of_order_sequence_number.value
    behind = next_step(gap, replace(_USUAL, is_head=False))
    names[behind.action].append(f"`{error_name(gap)}` while an earlier batch is unanswered")
    rows = [(", ".join(names), _DOES[action]) for action, names in names.items() if names]
    return table(("error", "what the producer does"), rows)


def render_unclear_errors() -> str:
    """Return a list of the errors after which the log can still contain the records."""
    named = sorted(code for code in MAYBE_APPENDED if code in list(ErrorCode))
    return "".join(f"- `{error_name(code)}`\n" for code in named)


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


def render_fields() -> str:
    """Return a table of the fields of the JSON report, with nested fields below their parents."""
    whole = json.loads(_REPORT.to_json())
    docs = attribute_docs(DeliveryCounters)
    docs["task_columns"] = "Names of the values in a row of `task_rows`."
    docs["task_rows"] = docs["task_reports"]
    parts = {
        "slowest": (_TASK.to_dict(), attribute_docs(TaskAttempt) | attribute_docs(TaskReport)),
        "transactions": (asdict(_TRANSACTION), attribute_docs(ReportedTransaction)),
        "poison": (asdict(BadRowCount(reason="")), attribute_docs(BadRowCount)),
        "codecs": (asdict(CodecCost(codec="")), attribute_docs(CodecCost)),
        "partitions": (_PART.to_dict(), attribute_docs(PartitionReport)),
    }
    rows = []
    for name in whole:
        rows.append((f"`{name}`", _for_readers(docs[name])))
        inner, inner_docs = parts.get(name, ({}, {}))
        rows += [
            (f"`{name}[].{field_name}`", _for_readers(inner_docs[field_name]))
            for field_name in inner
        ]
    return table(("field", "meaning"), rows)


def _for_readers(text: str) -> str:
    for word, other in _WORDS.items():
        text = text.replace(word, other)
    return text


def render_metric_fields() -> str:
    """Return a table of the fields of `metrics`."""
    rows = []
    for prefix, values, owner in (
        ("", ProducerMetrics().to_dict(), ProducerMetrics),
        ("brokers[].", _METRICS.to_dict()["brokers"][0], BrokerMetrics),
        ("topics[].", _METRICS.to_dict()["topics"][0], TopicMetrics),
    ):
        docs = attribute_docs(owner)
        rows += [(f"`{prefix}{name}`", docs[name]) for name in values]
    return table(("field of `metrics`", "meaning"), rows)


def render_metric_names() -> str:
    """Return a table of Java's metric names with their types and scopes (client, broker, topic)."""
    metrics: dict[str, list[Metric]] = {}
    for metric in java_metrics(_REPORT, 1.0):
        metrics.setdefault(metric.name, []).append(metric)
    scopes = {(): "the write", ("node_id",): "each broker", ("topic",): "each topic"}
    rows = []
    for name, same in sorted(metrics.items()):
        labels = dict.fromkeys(tuple(label for label, _ in metric.labels) for metric in same)
        scope = ", ".join(scopes[label] for label in labels)
        rows.append((f"`{name}`", same[0].kind.name.lower(), scope))
    return table(("metric", "type", "scope"), rows)


def render_format_types() -> str:
    """Return a table of Spark types, with an example in JSON and the types of Avro and Protobuf."""
    rows = [
        (
            f"`{_type_name(data_type)}`",
            *(_or_unsupported(encode, data_type, value) for encode in (_json, _avro, _protobuf)),
        )
        for data_type, value in _EXAMPLES
    ]
    return table(("Spark", "JSON, for example", "Avro", "Protobuf"), rows)


def _type_name(data_type: types.DataType) -> str:
    """Return the SQL name of a type, with a note for arrays whose items can be null."""
    name = data_type.simpleString()
    nullable = isinstance(data_type, types.ArrayType) and data_type.containsNull
    return f"{name}, items null" if nullable else name


def _or_unsupported(
    render: Callable[[pa.StructType, Any], str], data_type: types.DataType, value: Any
) -> str:
    nullable = isinstance(data_type, types.NullType)
    schema = types.StructType([types.StructField("c", data_type, nullable=nullable)])
    try:
        return f"`{render(pa.struct(list(arrow_schema(schema))), value)}`"
    except ColumnError:
        return _UNSUPPORTED


def _json(type_: pa.StructType, value: Any) -> str:
    spec = EncoderSpec(format=Format.JSON, zone="Europe/Berlin", writes_nulls=True)
    array: Any = pa.array([{"c": value}], type_)
    encoded = compile_encoder(spec, type_).encode(array, EncodingErrors(1))
    text: str = encoded[0].as_py().decode()
    return text.removeprefix('{"c":').removesuffix("}")


def _avro(type_: pa.StructType, _value: Any) -> str:
    derived = derive_schema(Format.AVRO, type_, "Value")
    return _avro_name(json.loads(derived.text)["fields"][0]["type"])


def _avro_name(schema: Any) -> str:
    if isinstance(schema, list):
        return ", ".join(map(_avro_name, schema))
    if isinstance(schema, str):
        return schema
    logical = schema.get("logicalType")
    inner = schema.get("items", schema.get("values"))
    name = schema["type"] if inner is None else f"{schema['type']} of {_avro_name(inner)}"
    return f"{name} ({logical})" if logical else str(name)


def _protobuf(type_: pa.StructType, _value: Any) -> str:
    derived = derive_schema(Format.PROTOBUF, type_, "Value")
    schema = ProtoSchema.parse(derived.text)
    return _proto_name(schema, schema.message(None).fields[0])


def _proto_name(schema: ProtoSchema, field: ProtoField) -> str:
    message = schema.messages.get(field.type_name)
    if message is not None and message.is_map_entry:
        return f"map<{', '.join(_proto_name(schema, field_type) for field_type in message.fields)}>"
    declared = "message" if field.type_name.startswith("Value") else field.type_name
    name = declared or field.kind.name.lower()
    return f"repeated {name}" if field.is_repeated else name
