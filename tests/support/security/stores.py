"""Trust stores and key stores as files, in all formats of Java and OpenSSL."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from tests.support.keytool import keytool, openssl
from tools.support.certificates import EXPIRED, CertificateAuthority, IssuedCertificate

STORE_PASSWORD = "store-secret-1"
KEY_PASSWORD = "key-secret-2"
CLIENT = "alice"
"""The subject of the client certificates."""
_HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Stores:
    """All files for the listeners and the clients, in `folder`.

    Clients: `trust.{pem,jks,p12}`, `client.{pem,jks,p12,crt,key}`, `client-pbes1.pem` and
    `client-pbes2.pem` with encrypted keys, `expired-client.pem`, and `stranger.pem`, signed by an
    unknown authority (`unknown-trust.pem`).
    Listeners: `good`, `renewing`, `renewed`, `expired`, `wrong_host`, `unknown_ca`, each as `.pem`
    and as `.p12`.
    """

    folder: Path
    authority: CertificateAuthority
    client: IssuedCertificate

    def path(self, name: str) -> Path:
        """Return the path of a file in `folder`."""
        return self.folder / name

    @property
    def placeholders(self) -> dict[str, str]:
        """Return the values of the names in braces in `client_configs`."""
        return {
            "tls": str(self.folder),
            "ca": self.authority.certificate_pem,
            "chain": self.client.chain_pem,
            "key": self.client.key_pem(),
            "pbes1_key": self.path("client-pbes1.key").read_text(),
            "store_password": STORE_PASSWORD,
            "key_password": KEY_PASSWORD,
        }


def write_stores(folder: Path) -> Stores:
    """Create an authority and write all files."""
    folder.mkdir(parents=True)
    authority, unknown = CertificateAuthority(), CertificateAuthority("Another Authority")
    authority.write(folder, "trust")
    unknown.write(folder, "unknown-trust")
    certificates = {
        "good": authority.server(*_HOSTS),
        "renewing": authority.server(*_HOSTS),
        "renewed": authority.server(*_HOSTS),
        "expired": authority.server(*_HOSTS, validity=EXPIRED),
        "wrong_host": authority.server("kafka.example"),
        "unknown_ca": unknown.server(*_HOSTS),
        "client": authority.client(CLIENT),
        "expired-client": authority.client(CLIENT, EXPIRED),
        "stranger": unknown.client(CLIENT),
    }
    for name, issued in certificates.items():
        issued.write(folder, name)
        (folder / f"{name}.p12").write_bytes(_pkcs12(issued))
    stores = Stores(folder, authority, certificates["client"])
    _write_client(stores)
    return stores


def _write_client(stores: Stores) -> None:
    client, path = stores.client, stores.path
    path("client.key").write_text(client.key_pem())
    client.write(stores.folder, "client-pbes2", KEY_PASSWORD)
    with ThreadPoolExecutor() as pool:
        futures = [
            pool.submit(_import_authority, path("trust.jks"), "JKS", path("trust.pem")),
            pool.submit(_import_authority, path("trust.p12"), "PKCS12", path("trust.pem")),
            pool.submit(_import_key, path("client.jks"), path("client.p12")),
            pool.submit(_encrypt_with_pbes1, path("client.key"), path("client-pbes1.key")),
        ]
    for future in futures:
        future.result()
    encrypted = path("client-pbes1.key").read_text()
    path("client-pbes1.pem").write_text(encrypted + client.chain_pem)


def _pkcs12(issued: IssuedCertificate) -> bytes:
    return pkcs12.serialize_key_and_certificates(
        b"key",
        issued.key,
        issued.certificate,
        issued.issuers,
        BestAvailableEncryption(STORE_PASSWORD.encode()),
    )


def _import_authority(store: Path, kind: str, certificate: Path) -> None:
    line = ["-importcert", "-alias", "ca", "-file", str(certificate)]
    keytool(*line, "-keystore", str(store), "-storetype", kind, "-storepass", STORE_PASSWORD)


def _import_key(store: Path, source: Path) -> None:
    """Write a JKS file whose key has a different password than the store."""
    line = ["-importkeystore", "-alias", "key", "-srckeystore", str(source)]
    line += ["-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD]
    line += ["-destkeystore", str(store), "-deststoretype", "JKS"]
    keytool(*line, "-deststorepass", STORE_PASSWORD, "-destkeypass", KEY_PASSWORD)


def _encrypt_with_pbes1(key: Path, encrypted: Path) -> None:
    """Encrypt a key with PBES1, the only encryption of PKCS#8 in PEM files that Java 17 reads."""
    line = ["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-in", str(key)]
    openssl(*line, "-out", str(encrypted), "-passout", f"pass:{KEY_PASSWORD}")
