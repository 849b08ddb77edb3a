"""Stores created by Java's keytool and by openssl, once for all tests of this folder."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.keytool import keytool, openssl
from tools.support.certificates import CertificateAuthority, IssuedCertificate, KeyKind

STORE_PASSWORD = "store-password"
KEY_PASSWORD = "key-password"


@dataclass(frozen=True)
class Stores:
    """`folder` contains trust-* with two authorities each, and client-* with the client's key."""

    folder: Path
    authority: CertificateAuthority
    other: CertificateAuthority
    server: IssuedCertificate
    client: IssuedCertificate

    def path(self, name: str) -> str:
        return str(self.folder / name)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("stores")
    authority, other = CertificateAuthority("First"), CertificateAuthority("Second")
    issuing = CertificateAuthority("Issuing", parent=authority)
    server = authority.server("localhost", "127.0.0.1")
    files = Stores(folder, authority, other, server, issuing.client("alice", kind=KeyKind.RSA))
    authority.write(folder, "first")
    other.write(folder, "second")
    _write_trust(files)
    _write_keys(files)
    return files


def _write_trust(stores: Stores) -> None:
    unprotected = ("certProtectionAlgorithm=NONE", "macAlgorithm=NONE")
    properties: dict[str, tuple[str, ...]] = {
        "trust.jks": (),
        "trust.p12": (),
        "trust-legacy.p12": ("legacy",),
        "trust-unprotected.p12": unprotected,
    }
    for store, names in properties.items():
        for authority in ("first", "second"):
            keytool(
                "-importcert",
                *(f"-J-Dkeystore.pkcs12.{name}" for name in names),
                *("-alias", authority, "-file", stores.path(f"{authority}.pem")),
                *("-keystore", stores.path(store), "-storepass", STORE_PASSWORD),
                *("-storetype", "JKS" if store.endswith("jks") else "PKCS12"),
            )
    both = stores.folder / "both.pem"
    both.write_text(stores.authority.certificate_pem + stores.other.certificate_pem)
    for store, options in {"trust-openssl.p12": (), "trust-rc2.p12": ("-legacy",)}.items():
        openssl(
            *("pkcs12", "-export", "-nokeys", *options, "-in", str(both)),
            *("-out", stores.path(store), "-passout", f"pass:{STORE_PASSWORD}"),
        )


def _write_keys(stores: Stores) -> None:
    client, path = stores.client, stores.path
    pem = str(client.write(stores.folder, "client"))
    openssl(
        *("pkcs12", "-export", "-in", pem, "-name", "key", "-out", path("client-openssl.p12")),
        *("-passout", f"pass:{STORE_PASSWORD}"),
    )
    targets = {"client.jks": ("JKS", KEY_PASSWORD), "client.p12": ("PKCS12", STORE_PASSWORD)}
    for store, (kind, key_password) in targets.items():
        keytool(
            *("-importkeystore", "-alias", "key", "-srckeystore", path("client-openssl.p12")),
            *("-srcstorepass", STORE_PASSWORD, "-destkeystore", path(store)),
            *("-deststoretype", kind, "-deststorepass", STORE_PASSWORD),
            *("-destkeypass", key_password),
        )
    keytool(
        *("-genkeypair", "-keyalg", "EC", "-alias", "key", "-dname", "CN=old"),
        *("-keystore", path("client.jceks"), "-storetype", "JCEKS"),
        *("-storepass", STORE_PASSWORD, "-keypass", STORE_PASSWORD),
    )
