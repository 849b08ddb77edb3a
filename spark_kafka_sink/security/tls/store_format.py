"""What format a store's file is in: Java looks at the bytes too, whatever the type's option says.

Java's JKS reads PKCS12 and its PKCS12 reads JKS (keystore.type.compat), and Kafka's default type
is JKS, so that many a PKCS12 file is named without its type.
"""

from __future__ import annotations

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import StoreType
from spark_kafka_sink.security.tls import jks

_JCEKS = b"\xce\xce\xce\xce"
_SEQUENCE = 0x30


def store_format(content: bytes, declared: StoreType, option: str) -> StoreType:
    """The format to read a store in.

    Args:
        content: the file's bytes.
        declared: the type that the options give, or Java's default.
        option: the full name of the location's option.

    Raises:
        ConfigError: the file is PEM and not declared so, or the reverse, or of another format.
    """
    found = _recognised(content)
    type_option = option.replace(".location", ".type")
    if content.startswith(_JCEKS):
        raise ConfigError(
            f"option {option} names a key store of the format JCEKS, which is not supported",
            hint="Convert it with keytool -importkeystore -deststoretype pkcs12.",
        )
    if declared is StoreType.PEM:
        if found is None:
            return StoreType.PEM
        raise ConfigError(
            f"option {option} names a {found.value} file, and {type_option} says PEM",
            hint=f"Set {type_option}={found.value}.",
        )
    if found is not None:
        return found
    looks_pem = b"-----BEGIN " in content
    raise ConfigError(
        f"option {option} names a file that is neither JKS nor PKCS12",
        hint=f"It is PEM: set {type_option}=PEM." if looks_pem else None,
    )


def _recognised(content: bytes) -> StoreType | None:
    if content.startswith(jks.MAGIC):
        return StoreType.JKS
    if content[:1] == bytes([_SEQUENCE]):
        return StoreType.PKCS12
    return None
