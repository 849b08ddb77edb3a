"""``kafkaprod broker``: its options, and the process that runs the embedded broker."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from spark_kafka_sink.broker.config import LOG, BrokerConfig, BrokerOptions
from spark_kafka_sink.broker.embedded import EmbeddedBroker
from spark_kafka_sink.broker.security.oauthbearer import JwksValidator, validate_unsecured
from spark_kafka_sink.broker.security.settings import ClientAuth, TlsFiles
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import ENVIRONMENT, FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_kafka_sink.broker.security.oauthbearer import TokenValidator


def parse_users(texts: Iterable[str]) -> dict[str, str]:
    """Parse name=env:VARIABLE and name=file:PATH.

    Raises:
        ConfigError: an option contains a password instead of a reference. Every process on the
            machine can read command lines.
    """
    found = {}
    for text in texts:
        name, equals, password = text.partition("=")
        if not (name and equals and password.startswith((ENVIRONMENT, FILE))):
            raise ConfigError(
                f"--sasl-user {name} has no password reference",
                hint="Use alice=env:VARIABLE or alice=file:PATH: every process on the machine can "
                "read command lines",
            )
        found[name] = password
    return found


def certificate(
    *, tls: bool, certificate: str | None, key: str | None, ca: str | None, password: str | None
) -> bool | TlsFiles:
    """Return the option `tls`: certificate files, True to create a certificate, or False.

    Raises:
        ConfigError: only some of the files are given.
    """
    given = [path for path in (certificate, key, ca) if path is not None]
    if not given:
        return tls
    if certificate is None or key is None or ca is None:
        raise ConfigError(
            "the options for certificate files are incomplete",
            hint="Set --tls-certificate, --tls-key and --tls-ca",
        )
    return TlsFiles(certificate=certificate, key=key, ca=ca, key_password=password)


def token_validator(jwks: str | None) -> TokenValidator:
    """Return a validator with the issuer's keys. Without a file, unsigned tokens are accepted.

    Raises:
        ConfigError: the file cannot be read, or contains no keys.
    """
    if jwks is None:
        return validate_unsecured
    try:
        return JwksValidator(keys=json.loads(Path(jwks).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--oauthbearer-jwks {jwks} cannot be read: {error}",
            hint="Use a file with the issuer's JSON Web Key Set",
        ) from None


def client_option_lines(
    kafka: EmbeddedBroker, ca_file: Path | None, own: tuple[Path, Path] | None
) -> Iterator[str]:
    """Yield the options that clients need, as name=value. Passwords are references.

    Args:
        kafka: the broker.
        ca_file: file with the authority's certificate, if TLS is enabled.
        own: files with a client's certificate and key, if the broker requires a client certificate.
    """
    options = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": kafka.security_protocol,
    }
    if ca_file is not None:
        location = str(ca_file.absolute())
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    if own is not None:
        names = ("ssl.keystore.certificate.chain", "ssl.keystore.key")
        files = (f"{FILE}{path.absolute()}" for path in own)
        options |= {"ssl.keystore.type": "PEM", **dict(zip(names, files, strict=True))}
    if kafka.config.sasl:
        user = next(iter(kafka.config.sasl))
        mechanism = kafka.client_options(user, prefix="")["sasl.mechanism"]
        options |= {"sasl.mechanism": mechanism, "sasl.username": user}
        options["sasl.password"] = kafka.config.sasl[user]
    for name, value in options.items():
        yield f"kafka.{name}={value}"


DEFAULTS = BrokerConfig()


class LogLevel(StrEnum):
    """The log level of the broker, named as in Python's logging."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerArguments:
    """The options of `kafkaprod broker`."""

    topic: Annotated[
        list[str] | None,
        typer.Option(help="Topic to create, as name:partitions[:replicas]; may be repeated."),
    ] = None
    port: Annotated[int, typer.Option(help="Port of the first broker; 0: a free port.")] = 9092
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1"
    advertised_listeners: Annotated[
        str | None,
        typer.Option(help="Advertised listeners: host:port of each broker, separated by commas."),
    ] = None
    nodes: Annotated[int, typer.Option(help="Number of brokers, on consecutive ports.")] = 1
    auto_create_topics: Annotated[
        bool, typer.Option(help="Create missing topics when a client requests them.")
    ] = DEFAULTS.auto_create_topics
    topic_config: Annotated[
        list[str] | None,
        typer.Option(
            help="Config of a --topic, such as events:retention.ms=60000; may be repeated."
        ),
    ] = None
    default_partitions: Annotated[
        int, typer.Option(help="Default number of partitions for new topics.")
    ] = DEFAULTS.default_partitions
    replication_factor: Annotated[
        int, typer.Option(help="Default replication factor for new topics.")
    ] = DEFAULTS.replication_factor
    message_max_bytes: Annotated[int, typer.Option(help="Maximum size of a batch, in bytes.")] = (
        DEFAULTS.message_max_bytes
    )
    cluster_id: Annotated[str, typer.Option(help="Cluster id.")] = DEFAULTS.cluster_id
    transaction_version: Annotated[
        int,
        typer.Option(help="Level of the feature transaction.version, 0 to 2; 2: transactions V2."),
    ] = DEFAULTS.transaction_version
    api_versions_of: Annotated[
        str | None,
        typer.Option(help="Kafka release to emulate, such as 2.8: support only its API versions."),
    ] = None
    transaction_max_timeout_ms: Annotated[
        int, typer.Option(help="Maximum transaction timeout that a producer may request.")
    ] = DEFAULTS.transaction_max_timeout_ms
    transactional_id_expiration_ms: Annotated[
        int, typer.Option(help="Idle time after which a transactional id expires.")
    ] = DEFAULTS.transactional_id_expiration_ms
    replica_lag_time_max_ms: Annotated[
        int, typer.Option(help="Maximum time that a follower can lag and still remain in the ISR.")
    ] = DEFAULTS.replica_lag_time_max_ms
    session_timeout_ms: Annotated[
        int,
        typer.Option(
            help="Time after which other brokers take over the partitions that an "
            "unresponsive broker leads."
        ),
    ] = DEFAULTS.session_timeout_ms
    group_min_session_timeout_ms: Annotated[
        int, typer.Option(help="Minimum session.timeout.ms of a consumer group's members.")
    ] = DEFAULTS.group_min_session_timeout_ms
    group_max_session_timeout_ms: Annotated[
        int, typer.Option(help="Maximum session.timeout.ms of a consumer group's members.")
    ] = DEFAULTS.group_max_session_timeout_ms
    retention_check_ms: Annotated[int, typer.Option(help="Interval between retention checks.")] = (
        DEFAULTS.retention_check_ms
    )
    follower_lag_ms: Annotated[
        int, typer.Option(help="Simulated replication delay of followers.")
    ] = 0
    data_dir: Annotated[
        str | None, typer.Option(help="Directory for logs and offsets; kept between restarts.")
    ] = None
    storage: Annotated[
        str,
        typer.Option(
            help="Log storage: log (--data-dir or memory), or redis://host:port/db?prefix=name."
        ),
    ] = LOG
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="Fault to inject, such as produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:"
            "next=5; may be repeated."
        ),
    ] = None

    tls: Annotated[
        bool,
        typer.Option(help="Use TLS with a certificate issued by the broker's own authority."),
    ] = False
    ca_file: Annotated[
        str | None,
        typer.Option(
            help="File to which the authority's certificate is written, for clients to trust."
        ),
    ] = None
    tls_certificate: Annotated[
        str | None,
        typer.Option(help="PEM file of a certificate chain, instead of a generated certificate."),
    ] = None
    tls_key: Annotated[
        str | None, typer.Option(help="PEM file of the certificate's private key.")
    ] = None
    tls_key_password: Annotated[
        str | None, typer.Option(help="Password of the private key: env:VARIABLE or file:PATH.")
    ] = None
    tls_ca: Annotated[
        str | None, typer.Option(help="PEM file of the authority that signed the certificate.")
    ] = None
    client_certificates: Annotated[
        str | None, typer.Option(help="Client certificates: required, requested or none.")
    ] = None
    sasl_user: Annotated[
        list[str] | None,
        typer.Option(
            help="User and password reference, as alice=env:VARIABLE or alice=file:PATH; may be "
            "repeated."
        ),
    ] = None
    sasl_mechanism: Annotated[
        list[str] | None,
        typer.Option(help="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; may be repeated."),
    ] = None
    scram_iterations: Annotated[int, typer.Option(help="Iterations of SCRAM's key derivation.")] = (
        DEFAULTS.scram_iterations
    )
    oauthbearer_jwks: Annotated[
        str | None,
        typer.Option(
            help="File with the keys of the token issuer; without it, unsigned tokens are accepted."
        ),
    ] = None
    connections_max_reauth_ms: Annotated[
        int,
        typer.Option(
            help="Session lifetime after which clients must reauthenticate; 0: unlimited."
        ),
    ] = DEFAULTS.connections_max_reauth_ms
    failed_authentication_delay_ms: Annotated[
        int, typer.Option(help="Delay before the response to a failed login.")
    ] = DEFAULTS.failed_authentication_delay_ms
    handshake_timeout_ms: Annotated[
        int, typer.Option(help="Maximum total duration of the TLS handshake and the SASL login.")
    ] = DEFAULTS.handshake_timeout_ms
    deny: Annotated[
        list[str] | None,
        typer.Option(
            help="Operation to deny to a user, such as alice:Write:topic=x or "
            "alice:IdempotentWrite; may be repeated."
        ),
    ] = None

    log_level: Annotated[
        LogLevel,
        typer.Option(help="Log level on stderr; rejected requests are logged as warnings."),
    ] = LogLevel.WARNING

    def options(self) -> BrokerOptions:
        """Return the options for `EmbeddedBroker`.

        Raises:
            ConfigError: a topic, a topic config, or a user cannot be parsed.
        """
        topics = [TopicArgument.parse(text) for text in self.topic or ()]
        options: BrokerOptions = {
            "topics": {topic.name: topic.partitions for topic in topics},
            "replication_factors": {
                topic.name: topic.replicas for topic in topics if topic.replicas
            },
            "faults": tuple(self.fault or ()),
            "topic_configs": _topic_configs(self.topic_config or ()),
            "tls": certificate(
                tls=self.tls,
                certificate=self.tls_certificate,
                key=self.tls_key,
                ca=self.tls_ca,
                password=self.tls_key_password,
            ),
            "sasl": parse_users(self.sasl_user or ()) or None,
            "sasl_mechanisms": self.sasl_mechanism,
            "oauthbearer_validator": token_validator(self.oauthbearer_jwks),
            "denials": tuple(self.deny or ()),
        }
        unchanged = BrokerOptions.__annotations__.keys() - options.keys()
        return cast("BrokerOptions", {name: getattr(self, name) for name in unchanged} | options)


@dataclass(frozen=True, slots=True)
class TopicArgument:
    """A topic to create on startup. 0 replicas means the broker's default."""

    name: str
    partitions: int = 1
    replicas: int = 0

    @classmethod
    def parse(cls, text: str) -> TopicArgument:
        """Parse name, name:partitions or name:partitions:replicas.

        Raises:
            ConfigError: the text does not have this form.
        """
        name, *numbers = text.split(":")
        valid = name and len(numbers) <= 2 and all(n.isdecimal() and int(n) for n in numbers)
        if not valid:
            raise ConfigError(
                f"--topic {text} is invalid", hint="Use name:partitions or name:partitions:replicas"
            )
        return cls(name, *map(int, numbers))


def _topic_configs(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        topic, _, setting = text.partition(":")
        name, equals, value = setting.partition("=")
        if not (topic and name and equals):
            raise ConfigError(
                f"--topic-config {text} is invalid",
                hint="Use topic:name=value, for example events:retention.ms=60000",
            )
        found.setdefault(topic, {})[name] = value
    return found


READY = "kafkaprod broker ready on"


def serve(options: BrokerOptions, ca_file: str | None = None) -> None:
    """Run a broker until SIGINT or SIGTERM. Once clients can connect, print READY and addresses.

    If the broker is secured, also print the options that clients need.

    Args:
        options: options of `EmbeddedBroker`.
        ca_file: file to which the authority's certificate is written, for clients; by default a
            temporary file.

    Raises:
        KafkaProdError: the broker cannot be started.
    """
    if ca_file is not None and not options.get("tls"):
        raise ConfigError("--ca-file requires --tls", hint="Add --tls, or remove --ca-file")
    stop = threading.Event()
    previous_handlers = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with EmbeddedBroker(**options) as kafka:
            typer.echo(f"{READY} {kafka.bootstrap_servers}")
            if options.get("tls") or kafka.config.security.mechanisms:
                _print_client_options(kafka, ca_file)
            stop.wait()
        typer.echo("kafkaprod broker stopped")
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _print_client_options(kafka: EmbeddedBroker, ca_file: str | None) -> None:
    path = None
    if kafka.config.tls:
        path = kafka.ca_file if ca_file is None else Path(ca_file)
        path.write_text(kafka.ca_certificate, encoding="utf-8")
    own = None
    if kafka.config.security.client_auth is ClientAuth.REQUIRED:
        own = kafka.client_certificate_files(kafka.client_certificate("client"))
    for line in client_option_lines(kafka, path, own):
        typer.echo(line)
