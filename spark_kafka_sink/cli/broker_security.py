"""What `kafkaprod broker` is told about security, and what it tells those who want to come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.security.bearer_tokens import JwksValidator, validate_unsecured
from spark_kafka_sink.broker.security.settings import TlsFiles
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import ENVIRONMENT, FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_kafka_sink.broker.embedded import EmbeddedBroker
    from spark_kafka_sink.broker.security.bearer_tokens import TokenValidator


def users(texts: Iterable[str]) -> dict[str, str]:
    """Read name=env:VARIABLE and name=file:PATH.

    Raises:
        ConfigError: a password stands there itself, where every process of the machine can read it.
    """
    found = {}
    for text in texts:
        name, equals, password = text.partition("=")
        if not (name and equals and password.startswith((ENVIRONMENT, FILE))):
            raise ConfigError(
                f"--sasl-user {name} has no reference to a password",
                hint="Write it as alice=env:VARIABLE or alice=file:PATH: what stands on a command "
                "line can be read by every process of the machine",
            )
        found[name] = password
    return found


def certificate(
    *, tls: bool, certificate: str | None, key: str | None, ca: str | None, password: str | None
) -> bool | TlsFiles:
    """The option tls: a certificate from files, one of the broker's own, or none.

    Raises:
        ConfigError: there is but a part of the files.
    """
    given = [path for path in (certificate, key, ca) if path is not None]
    if not given:
        return tls
    if certificate is None or key is None or ca is None:
        raise ConfigError(
            "a certificate from files is not complete",
            hint="Give --tls-certificate, --tls-key and --tls-ca",
        )
    return TlsFiles(certificate=certificate, key=key, ca=ca, key_password=password)


def token_validator(jwks: str | None) -> TokenValidator:
    """Believe the issuer whose keys are in a file; without one, whoever says something.

    Raises:
        ConfigError: the file has no keys.
    """
    if jwks is None:
        return validate_unsecured
    try:
        return JwksValidator(keys=json.loads(Path(jwks).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--oauthbearer-jwks {jwks} can't be read: {error}",
            hint="It is a file with the issuer's JSON Web Key Set",
        ) from None


def client_lines(
    kafka: EmbeddedBroker, ca_file: Path | None, own: tuple[Path, Path] | None
) -> Iterator[str]:
    """Options for clients, one a line, as name=value; a password only as where it is.

    Args:
        kafka: the broker.
        ca_file: where the authority's certificate is, if there is TLS.
        own: where a client's certificate and key are, if the broker requires one.
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
