"""sasl.jaas.config parsed as by Kafka, which uses Java's StreamTokenizer."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.jaas import parse_jaas
from tests.golden.jvm_jaas import read
from tools.support.java import Jvm

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
CASES = [
    "",
    ";",
    'username="alice" password="alice-secret";',
    "username='it''s';",
    r'p="a\"b\\c\t\n\101\477\8\x";',
    'p="open;',
    'p="open\n;',
    "p=1234;",
    "p=-1;",
    "p=-a;",
    "p=a-1.b_$;",
    "p=.5;",
    "p=a@b;",
    "p=kafka/host@REALM;\n;",
    'p="a" / comment "b"\n q="c";',
    'p="a" /\n q="c"\n r="d";',
    'p="a" // comment\r q="c";',
    'p="a" /* b="c" */ q="d";',
    'p="a" /*/ q="d"; */;',
    'p="a" /* open ;',
    'p="a" # q="b";',
    'p="ü€😀\u0085";',
    "p=ü€😀;",
    "\u0085p=a;",
    'p="a" p="b";',
    '"a b"="c";',
    'p == "a";',
    'p="a", q="b";',
    'p="a"; trailing',
    'p="a"; // trailing',
    f'p="a"; {PLAIN} required;',
]
FLAGS = ["required", "REQUIRED", "requisite", "sufficient", "Optional", '"required"', "must", "="]
PIECES = [
    *"ab1.-_$=;,/*\"'\\\n\r\t #é€😀\x7f\x85\xa0",
    *('p="v"', 'p = "v"', "p=v", " ", ";", "//", "/*", "*/", r"\"", r"\101", '"', "= "),
]


def ours(text: str) -> tuple[str, dict[str, str]] | None:
    try:
        entry = parse_jaas(text, "kafka.sasl.jaas.config")
    except ConfigError:
        return None
    return entry.module.value, dict(entry.options.options)


@pytest.mark.parametrize("text", CASES)
def test_options_match_java(jvm: Jvm, text: str) -> None:
    assert ours(f"{PLAIN} required {text}") == read(jvm, f"{PLAIN} required {text}")


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("end", [";", ""])
def test_flags_match_java(jvm: Jvm, flag: str, end: str) -> None:
    assert ours(f"{PLAIN} {flag}{end}") == read(jvm, f"{PLAIN} {flag}{end}")


@pytest.mark.parametrize("text", ["", " ", "// x", "; x", f"'{PLAIN}' required;", "-1 required;"])
def test_text_before_the_flag_matches_java(jvm: Jvm, text: str) -> None:
    assert ours(text) == read(jvm, text)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=14), end=st.sampled_from(("", ";")))
def test_any_text_is_parsed_as_in_java(jvm: Jvm, pieces: list[str], end: str) -> None:
    text = f"{PLAIN} required {''.join(pieces)}{end}"
    theirs = read(jvm, text)
    mine = ours(text)
    # Only a name that Java reads as null may differ: the package rejects it.
    assert mine == theirs or (
        mine is None and theirs is not None and has_nameless_option(jvm, text)
    )


def has_nameless_option(jvm: Jvm, text: str) -> bool:
    """Return True if Java has parsed an option without a name."""
    configs = jvm.packages.java.util.HashMap()
    configs.put("sasl.jaas.config", jvm.common.config.types.Password(text))
    (entry,) = jvm.common.security.JaasContext.loadClientContext(configs).configurationEntries()
    return bool(entry.getOptions().containsKey(None))
