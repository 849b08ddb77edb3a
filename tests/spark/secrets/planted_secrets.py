"""Unique secrets, and a search for them in files."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12PrivateKeyTypes,
    serialize_key_and_certificates,
)
from cryptography.x509 import load_pem_x509_certificate

from spark_kafka_sink import EmbeddedBroker

USER, PASSWORD = "alice", "S3NT-password-of-alice"
WRONG, MISTYPED, STORE = "S3NT-wrong-password", "S3NT-mistyped", "S3NT-of-the-store"
JAAS = "kafka.sasl.jaas.config"
STORE_PASSWORDS = ("kafka.ssl.keystore.password", "kafka.ssl.key.password")


@dataclass(frozen=True, slots=True)
class PlantedSecrets:
    """Options with secrets, and the texts that identify each secret or a part of it.

    `environment` contains the variables of secret references.
    """

    logins: list[dict[str, str]]
    wrong: dict[str, str]
    mistyped: dict[str, str]
    marks: dict[str, str]
    environment: dict[str, str]


def plant(kafka: EmbeddedBroker, folder: Path, topic: str) -> PlantedSecrets:
    """Return options for logins with inline PEM and with a PKCS12 file, and invalid options."""
    pair = kafka.client_certificate(USER)
    inline = kafka.client_options(USER, certificate=pair) | {"topic": topic}
    wrong = inline | {JAAS: inline[JAAS].replace(PASSWORD, WRONG)}
    store = folder / "client.p12"
    store.write_bytes(_pkcs12(pair.key, pair.certificate))
    filed = {name: value for name, value in inline.items() if ".ssl.keystore." not in name} | {
        "kafka.ssl.keystore.type": "PKCS12",
        "kafka.ssl.keystore.location": str(store),
        **dict.fromkeys(STORE_PASSWORDS, STORE),
    }
    marks = {
        "password": PASSWORD,
        "wrong password": WRONG,
        "mistyped option": MISTYPED,
        "key": pair.key.splitlines()[2],
        "password of the store": STORE,
    }
    mistyped = inline | {"kafka.sasl.pasword": MISTYPED}
    return PlantedSecrets([inline, filed], wrong, mistyped, marks, {})


def with_references(planted: PlantedSecrets, folder: Path) -> PlantedSecrets:
    """Replace the secrets in the options by references to variables and files."""
    inline, filed = planted.logins
    environment = {
        "LEAK_JAAS": inline[JAAS],
        "LEAK_STORE": STORE,
        "LEAK_WRONG": planted.wrong[JAAS],
    }
    inline = {name: _filed(name, value, folder) for name, value in inline.items()}
    inline[JAAS] = "env:LEAK_JAAS"
    filed = filed | {JAAS: "env:LEAK_JAAS", **dict.fromkeys(STORE_PASSWORDS, "env:LEAK_STORE")}
    wrong = inline | {JAAS: "env:LEAK_WRONG"}
    mistyped = inline | {"kafka.sasl.pasword": "env:LEAK_STORE"}
    return PlantedSecrets([inline, filed], wrong, mistyped, planted.marks, environment)


def _filed(name: str, value: str, folder: Path) -> str:
    """Write a PEM value to a file and return its path."""
    if not value.startswith("-----BEGIN"):
        return value
    file = folder / f"{name}.pem"
    file.write_text(value)
    return f"file:{file}"


def _pkcs12(key: str, certificate: str) -> bytes:
    return serialize_key_and_certificates(
        b"client",
        cast("PKCS12PrivateKeyTypes", load_pem_private_key(key.encode(), None)),
        load_pem_x509_certificate(certificate.encode()),
        None,
        BestAvailableEncryption(STORE.encode()),
    )


def find(folder: Path, marks: dict[str, str]) -> dict[str, set[str]]:
    """Return the files in a folder whose content or name contains each text."""
    places: dict[str, set[str]] = {}
    for location, _, files in os.walk(folder):
        for name in files:
            file = Path(location) / name
            data = file.read_bytes() + bytes(file) if file.is_file() else bytes(file)
            for what, mark in marks.items():
                if mark.encode() in data:
                    places.setdefault(what, set()).add(str(file.relative_to(folder)))
    return places
