""".properties files parsed as by java.util.Properties."""

import pytest

from spark_kafka_sink.config.profiles import parse_properties
from tools.support.java import Jvm

TEXTS = [
    "",
    "a=b\nc = d \n e:f\ng h\ni",
    "# comment\n! comment\n  # comment\na=#b",
    "a=b\\\n   c\\\r\n\td\ne=f",
    "# comment \\\na=b",
    "a=b\\\\\nc=d",
    "a=b\\\\\\\nc=d",
    "a=x\\\n#y",
    'sasl.jaas.config=a.B required \\\n  username="alice" \\\n  password="a\\\\"b";\n',
    "path=C\\:\\\\dir\\tx",
    "a\\=b\\ c=d",
    "a==b",
    "a = = b",
    "a\tb",
    "a=\\u00fc\\u20ac",
    "a=1\ra=2\r\nb=3",
    "a=b\\",
    "ssl.truststore.certificates=-----BEGIN-----\\n\\\nabc\\n\\\n-----END-----",
    "\fa=b",
    "=b",
    'a=\\q\\"',
]


@pytest.mark.parametrize("text", TEXTS)
def test_properties_match_java(jvm: Jvm, text: str) -> None:
    properties = jvm.packages.java.util.Properties()
    properties.load(jvm.packages.java.io.StringReader(text))
    assert parse_properties(text) == dict(properties)
