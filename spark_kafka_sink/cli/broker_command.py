"""``kafkaprod broker``: its options, and the process that runs the embedded broker."""

from __future__ import annotations

import json
import logging
import signal
import threading
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from spark_kafka_sink.broker.config.command_line_settings import PORT_HELP, CommandLineSettings
from spark_kafka_sink.broker.embedded import EmbeddedBroker
from spark_kafka_sink.broker.security.oauthbearer import JwksValidator, validate_unsecured
from spark_kafka_sink.broker.security.settings import ClientAuth, TlsFiles
from spark_kafka_sink.cli.kafka_options import exit_on_error
from spark_kafka_sink.cli.option_fields import cli_option, command
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import ENVIRONMENT, FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_kafka_sink.broker.security.oauthbearer import TokenValidator

_READY = "kafkaprod broker ready on"


def _parse_users(texts: Iterable[str]) -> dict[str, str]:
    """Parse name=env:VARIABLE and name=file:PATH.

    Raises:
        ConfigError: an option contains a password instead of a reference. Every process on the
            machine can read command lines.
    """
    passwords = {}
    for text in texts:
        name, equals, password = text.partition("=")
        if not (name and equals and password.startswith((ENVIRONMENT, FILE))):
            raise ConfigError(
                f"--sasl-user {name} has no password reference",
                hint="Use alice=env:VARIABLE or alice=file:PATH: every process on the machine can "
                "read command lines.",
            )
        passwords[name] = password
    return passwords


def _token_validator(jwks: str | None) -> TokenValidator:
    """Return a validator with the issuer's keys. Without a file, unsigned tokens are accepted.

    Raises:
        ConfigError: the file cannot be read, or contains no keys.
    """
    if jwks is None:
        return validate_unsecured
    keys: Any = None
    problem = "it contains no keys"
    try:
        keys = json.loads(Path(jwks).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problem = str(error)
    if isinstance(keys, dict) and keys.get("keys"):
        return JwksValidator(keys=keys)
    raise ConfigError(
        f"--oauthbearer-jwks {jwks} cannot be read: {problem}",
        hint="Use a file with the issuer's JSON Web Key Set.",
    )


def _client_option_lines(
    kafka: EmbeddedBroker, ca_file: Path | None, certificate_files: tuple[Path, Path] | None
) -> Iterator[str]:
    """Yield the options that clients need, as name=value. Passwords are references.

    Args:
        kafka: the broker.
        ca_file: file with the authority's certificate, if TLS is enabled.
        certificate_files: files with a client's certificate and key, if the broker requires one.
    """
    options = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": kafka.security_protocol,
    }
    if ca_file is not None:
        location = str(ca_file.absolute())
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    if certificate_files is not None:
        names = ("ssl.keystore.certificate.chain", "ssl.keystore.key")
        files = (f"{FILE}{path.absolute()}" for path in certificate_files)
        options |= {"ssl.keystore.type": "PEM", **dict(zip(names, files, strict=True))}
    if kafka.config.sasl:
        user = next(iter(kafka.config.sasl))
        mechanism = kafka.client_options(user, prefix="")["sasl.mechanism"]
        options |= {"sasl.mechanism": mechanism, "sasl.username": user}
        options["sasl.password"] = kafka.config.sasl[user]
    for name, value in options.items():
        yield f"kafka.{name}={value}"


class LogLevel(StrEnum):
    """The log level of the broker, named as in Python's logging."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerArguments(CommandLineSettings):
    """The options of `kafkaprod broker`."""

    port: int = cli_option(PORT_HELP, 9092)
    topic: list[str] | None = cli_option(
        "Topic to create, as name:partitions[:replicas]; may be repeated."
    )
    topic_config: list[str] | None = cli_option(
        "Config of a --topic, such as events:retention.ms=60000; may be repeated."
    )
    fault: list[str] | None = cli_option(
        "Fault to inject, such as produce:partition=3:error=NOT_LEADER_OR_FOLLOWER:"
        "next=5; may be repeated."
    )
    tls: bool = cli_option(
        "Use TLS with a certificate issued by the broker's own authority.", False
    )
    ca_file: str | None = cli_option(
        "File to which the authority's certificate is written, for clients to trust."
    )
    tls_certificate: str | None = cli_option(
        "PEM file of a certificate chain, instead of a generated certificate."
    )
    tls_key: str | None = cli_option("PEM file of the certificate's private key.")
    tls_key_password: str | None = cli_option(
        "Password of the private key: env:VARIABLE or file:PATH."
    )
    tls_ca: str | None = cli_option("PEM file of the authority that signed the certificate.")
    sasl_user: list[str] | None = cli_option(
        "User and password reference, as alice=env:VARIABLE or alice=file:PATH; may be repeated."
    )
    sasl_mechanism: list[str] | None = cli_option(
        "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; may be repeated."
    )
    oauthbearer_jwks: str | None = cli_option(
        "File with the keys of the token issuer; without it, unsigned tokens are accepted."
    )
    deny: list[str] | None = cli_option(
        "Operation to deny to a user, such as alice:Write:topic=x or "
        "alice:IdempotentWrite; may be repeated."
    )
    log_level: LogLevel = cli_option(
        "Log level on stderr; rejected requests are logged as warnings.", LogLevel.WARNING
    )

    def options(self) -> dict[str, Any]:
        """Return the options for `EmbeddedBroker`.

        Raises:
            ConfigError: a topic, a topic config, or a user cannot be parsed.
        """
        topics = [TopicArgument.parse(text) for text in self.topic or ()]
        options = {
            "topics": {topic.name: topic.partitions for topic in topics},
            "replication_factors": {
                topic.name: topic.replicas for topic in topics if topic.replicas
            },
            "faults": tuple(self.fault or ()),
            "topic_configs": _topic_configs(self.topic_config or ()),
            "tls": self._tls_setting(),
            "sasl": _parse_users(self.sasl_user or ()) or None,
            "sasl_mechanisms": self.sasl_mechanism,
            "oauthbearer_validator": _token_validator(self.oauthbearer_jwks),
            "denials": tuple(self.deny or ()),
        }
        unchanged = {field.name: getattr(self, field.name) for field in fields(CommandLineSettings)}
        return unchanged | options

    def _tls_setting(self) -> bool | TlsFiles:
        """Return the setting `tls`: certificate files, True to create a certificate, or False.

        Raises:
            ConfigError: only some of the files are given.
        """
        certificate, key, ca = self.tls_certificate, self.tls_key, self.tls_ca
        if certificate is None and key is None and ca is None:
            return self.tls
        if certificate is None or key is None or ca is None:
            raise ConfigError(
                "the options for certificate files are incomplete",
                hint="Set --tls-certificate, --tls-key and --tls-ca.",
            )
        return TlsFiles(certificate=certificate, key=key, ca=ca, key_password=self.tls_key_password)


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
                f"--topic {text} is invalid",
                hint="Use name:partitions or name:partitions:replicas.",
            )
        return cls(name, *map(int, numbers))


def _topic_configs(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    configs: dict[str, dict[str, str]] = {}
    for text in texts:
        topic, _, setting = text.partition(":")
        name, equals, value = setting.partition("=")
        if not (topic and name and equals):
            raise ConfigError(
                f"--topic-config {text} is invalid",
                hint="Use topic:name=value, for example events:retention.ms=60000.",
            )
        configs.setdefault(topic, {})[name] = value
    return configs


@command
def broker(arguments: BrokerArguments) -> None:
    """Run the embedded broker until SIGINT or SIGTERM."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("spark_kafka_sink.broker").setLevel(arguments.log_level.upper())
    with exit_on_error():
        serve(arguments.options(), arguments.ca_file)


def serve(options: dict[str, Any], ca_file: str | None = None) -> None:
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
        raise ConfigError("--ca-file requires --tls", hint="Add --tls, or remove --ca-file.")
    stop = threading.Event()
    previous_handlers = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with EmbeddedBroker(**options) as kafka:
            typer.echo(f"{_READY} {kafka.bootstrap_servers}")
            if options.get("tls") or kafka.config.mechanisms:
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
        try:
            path.write_text(kafka.ca_certificate, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"--ca-file {path} cannot be written: {error.strerror}",
                hint="Use a file in a folder that exists and is writable.",
            ) from error
    certificate_files = None
    if kafka.config.client_auth is ClientAuth.REQUIRED:
        certificate_files = kafka.client_certificate_files(kafka.client_certificate("client"))
    for line in _client_option_lines(kafka, path, certificate_files):
        typer.echo(line)
