"""Valid combinations of ssl.* options, compared with Java's DefaultSslEngineFactory."""

from itertools import product

import pytest
from py4j.protocol import Py4JJavaError

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.sink_config import ProducerConfig
from tools.support.java import Jvm

SECURED = {"kafka.bootstrap.servers": "broker:9092", "kafka.security.protocol": "SSL"}
TYPES = ("JKS", "PKCS12", "PEM")
TRUSTSTORE = ("location", "certificates", "password")
KEYSTORE = ("location", "certificate.chain", "key", "password")
SECRETS = {"certificates", "certificate.chain", "key", "password"}
RULES = ("SSL ", "Both SSL ")
"""How the errors of its rules begin; unreadable stores are described in different words."""


def combinations(store: str, names: tuple[str, ...]) -> list[dict[str, str]]:
    """Return every combination of options for every type."""
    return [
        {f"ssl.{store}.type": kind}
        | {f"ssl.{store}.{name}": "/nowhere" for name, on in zip(names, chosen, strict=True) if on}
        for kind in TYPES
        for chosen in product((False, True), repeat=len(names))
    ]


def javas_rules_allow(jvm: Jvm, options: dict[str, str]) -> bool:
    """Return True if Java reads the files that the options name."""
    configs = jvm.packages.java.util.HashMap()
    configs.put("ssl.protocol", "TLSv1.3")
    for name in ("ssl.cipher.suites", "ssl.enabled.protocols"):
        configs.put(name, jvm.packages.java.util.ArrayList())
    for name, value in options.items():
        secret = name.split(".", maxsplit=2)[2] in SECRETS
        configs.put(name, jvm.common.config.types.Password(value) if secret else value)
    try:
        jvm.common.security.ssl.DefaultSslEngineFactory().configure(configs)
    except Py4JJavaError as error:
        return not str(error.java_exception.getMessage()).startswith(RULES)
    return True


def ours_allow(options: dict[str, str]) -> bool:
    try:
        ProducerConfig.parse(SECURED | {f"kafka.{name}": value for name, value in options.items()})
    except ConfigError:
        return False
    return True


@pytest.mark.parametrize(
    "options",
    [*combinations("truststore", TRUSTSTORE), *combinations("keystore", KEYSTORE)],
    ids=lambda options: " ".join(options.values()) and ",".join(options),
)
def test_valid_combinations_match_java(jvm: Jvm, options: dict[str, str]) -> None:
    assert ours_allow(options) == javas_rules_allow(jvm, options)
