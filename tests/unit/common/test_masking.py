"""Which values messages show, and which they only describe."""

import pytest

from spark_kafka_sink.common.masking import (
    SecretKind,
    safe_file,
    safe_name,
    safe_repr,
    safe_variable,
    secret_kind,
)

KEY = "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (KEY, SecretKind.PRIVATE_KEY),
        (KEY.replace("\n", "\\n"), SecretKind.PRIVATE_KEY),
        (KEY.lower(), SecretKind.PRIVATE_KEY),
        (KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), SecretKind.PRIVATE_KEY),
        (KEY.replace("PRIVATE KEY", "CERTIFICATE"), SecretKind.PEM),
        ('a.b.ScramLoginModule required username="alice";', SecretKind.LOGIN),
        ('a.b.OwnModule required username="alice";', SecretKind.LOGIN),
        ("alice password=hunter2", SecretKind.PASSWORD),
        ("clientSecret: hunter2", SecretKind.PASSWORD),
    ],
)
def test_possible_secret_is_described(text: str, kind: SecretKind) -> None:
    described = f"a text of {len(text)} characters that looks like {kind.value}"
    assert secret_kind(text) is kind
    assert safe_repr(text) == described
    assert safe_name(text) == f"({described})"
    assert described in safe_file(text)
    assert described in safe_variable(text)


@pytest.mark.parametrize("text", ["", "most", "broker:9092", "my-topic", "/run/secrets/password"])
def test_short_harmless_value_is_repeated(text: str) -> None:
    assert safe_repr(text) == repr(text)


def test_long_text_is_described() -> None:
    assert safe_repr("x" * 1704) == "a text of 1,704 characters"
    assert safe_file("/" + "x" * 1703).startswith(
        "a file whose name is a text of 1,704 characters, "
    )


@pytest.mark.parametrize("path", ["/run/secrets/kafka-password", "tls/ca", "ca.pem", "C:\\ca"])
def test_path_is_repeated(path: str) -> None:
    assert safe_file(path) == f"the file {path}"


def test_password_in_place_of_a_name_is_not_repeated() -> None:
    assert "hunter2" not in safe_file("hunter2")
    assert "hunter2" not in safe_variable("hunter2")
    assert safe_variable("KAFKA_PASSWORD") == "the environment variable KAFKA_PASSWORD"
    assert safe_name("sasl.password=x") == "(a text of 15 characters that looks like a password)"
