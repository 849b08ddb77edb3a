"""sasl.jaas.config; tests/golden compares the parser with Kafka's own class."""

import pytest

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.jaas import JaasOptions, LoginModule, parse_jaas
from tests.unit.config.parsing import config_error

OPTION = "kafka.sasl.jaas.config"
PLAIN = LoginModule.PLAIN.value


def options(text: str) -> dict[str, str]:
    return dict(parse_jaas(f"{PLAIN} required {text};", OPTION).options.options)


def failure(text: str) -> str:
    return config_error(parse_jaas, text, OPTION)


@pytest.mark.parametrize("module", LoginModule)
@pytest.mark.parametrize("prefix", ["", "kafkashaded.", "org.apache.kafka.shaded."])
@pytest.mark.parametrize("flag", ["required", "REQUISITE", "Sufficient", "optional"])
def test_login_modules_with_and_without_shading(
    module: LoginModule, prefix: str, flag: str
) -> None:
    assert parse_jaas(f"{prefix}{module.value} {flag};", OPTION).module is module


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty"),
        ("  // sentinel", "is empty"),
        (PLAIN, "has no control flag after the login module; use one of required, requisite"),
        (f"{PLAIN} requird;", "has no control flag after"),
        (f'{PLAIN} username="sentinel";', "has no control flag after"),
        (f"{PLAIN} required", "does not end with a semicolon"),
        (f'{PLAIN} required password="sentinel"', "does not end with a semicolon"),
        (f'{PLAIN} required password="sentinel;', "does not end with a semicolon"),
        (f"{PLAIN} required password;", "is invalid: login module option 1 has no value"),
        (
            f'{PLAIN} required a="b" password sentinel;',
            "is invalid: login module option 2 has no value",
        ),
        (f"{PLAIN} required password=;", "is invalid: the value of login module option 1 must be"),
        (
            f"{PLAIN} required password=1234;",
            "is invalid: the value of login module option 1 must be",
        ),
        (
            f'{PLAIN} required password="a"sentinel";',
            "is invalid: login module option 2 has no value",
        ),
        (f'{PLAIN} required ="sentinel";', "is invalid: login module option 1 has no name"),
        ("= required;", "does not start with the class of a login module"),
        (
            f"{PLAIN} required; {PLAIN} required;",
            "has 2 login modules, but exactly one is required",
        ),
        ("com.example.Sentinel required;", "contains an unknown login module"),
        ("myorg.apache.kafka.common.Sentinel required;", "contains an unknown login module"),
    ],
)
def test_error_contains_no_value(text: str, expected: str) -> None:
    assert f"option {OPTION} {expected}" in failure(text)


@pytest.mark.parametrize("package", ["", "com.sun.security.auth.module."])
@pytest.mark.parametrize("name", ["LdapLoginModule", "NTLoginModule", "UnixLoginModule"])
def test_other_login_module_with_a_similar_name_is_not_taken_for_a_typo(
    package: str, name: str
) -> None:
    assert "unknown login module. Supported:" in failure(f"{package}{name} required;")


def test_jaas_file_is_not_mistaken_for_an_option() -> None:
    message = failure(f'KafkaClient {{ {PLAIN} required password="sentinel"; }};')
    assert "is a section of a JAAS file" in message
    assert "-Djava.security.auth.login.config). Set the text between" in message


@pytest.mark.parametrize(
    "name", [PLAIN.lower(), "PlainLoginModule", "plainloginmodule", f"{PLAIN}s"]
)
def test_misspelled_login_module(name: str) -> None:
    assert failure(f"{name} required;").endswith(f"an unknown login module. Did you mean {PLAIN}?")


def test_values_are_secrets_and_may_be_references() -> None:
    options = parse_jaas(f'{PLAIN} required password="env:P" empty="" on=TRUE;', OPTION).options
    assert options.secret("password") == Secret("env:P", f"password in {OPTION}")
    assert options.secret("empty") is None
    assert options.text("missing") is None
    assert options.flag("on")
    assert not options.flag("password")
    assert JaasOptions({"a.x": "1", "b": "2"}).with_prefix("a.") == {"x": "1"}
    assert "env:P" not in repr(options)
