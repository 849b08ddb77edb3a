"""PEM as Kafka's clients take it (RFC 7468; DefaultSslEngineFactory.PemStore).

In an option's value the line breaks may be spaces, or backslash and n, as a properties file and a
shell leave them.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field

from spark_kafka_sink.common.errors import ConfigError

_BLOCK = re.compile(
    r"-----BEGIN ([A-Z0-9 ]+?)-----(.*?)-----END \1-----",
    re.DOTALL,
)
_HEADER = re.compile(r"^\s*[A-Za-z-]+:[^\n]*\n", re.MULTILINE)
_LINE = 64


@dataclass(frozen=True, slots=True)
class PemBlock:
    """What stands between one BEGIN and its END.

    Args:
        label: such as CERTIFICATE or ENCRYPTED PRIVATE KEY.
        headers: of RFC 1421, as in `Proc-Type: 4,ENCRYPTED`; empty for all that is newer.
        data: the bytes that were base64.
    """

    label: str
    headers: str
    data: bytes = field(repr=False)

    @property
    def is_certificate(self) -> bool:
        """Whether it is an X.509 certificate."""
        return self.label in {"CERTIFICATE", "X509 CERTIFICATE"}

    @property
    def is_private_key(self) -> bool:
        """Whether it is a private key, of any kind, encrypted or not."""
        return self.label.endswith("PRIVATE KEY")

    def text(self) -> bytes:
        """The block as PEM, with the line breaks that OpenSSL wants."""
        body = base64.b64encode(self.data).decode("ascii")
        lines = [body[start : start + _LINE] for start in range(0, len(body), _LINE)]
        headers = f"{self.headers}\n" if self.headers else ""
        joined = "\n".join(lines)
        return (
            f"-----BEGIN {self.label}-----\n{headers}{joined}\n-----END {self.label}-----\n"
        ).encode("ascii")


def pem_blocks(text: str, option: str) -> list[PemBlock]:
    """All blocks of a text, in their order; what stands around them is a comment.

    Raises:
        ConfigError: a block is not base64, or empty.
    """
    spread = text.replace("\\n", "\n").replace("\\r", "").replace("\r", "")
    return [_block(match[1], match[2], option) for match in _BLOCK.finditer(spread)]


def _block(label: str, body: str, option: str) -> PemBlock:
    headers = "".join(f"{match[0].strip()}\n" for match in _HEADER.finditer(body))
    encoded = "".join(_HEADER.sub("", body).split())
    if not (headers.isascii() and encoded.isascii()):
        raise _damaged(label, option, "has characters that are not ASCII")
    try:
        data = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise _damaged(label, option, "is not base64") from error
    if not data:
        raise _damaged(label, option, "is empty")
    return PemBlock(label, headers, data)


def _damaged(label: str, option: str, how: str) -> ConfigError:
    return ConfigError(
        f"option {option} holds a PEM block {label} that {how}",
        hint="Give the file's text unchanged; line breaks may be spaces.",
    )
