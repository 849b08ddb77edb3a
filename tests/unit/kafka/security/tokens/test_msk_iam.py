"""Tokens for Amazon MSK, signed offline with credentials from the environment."""

import os
from base64 import urlsafe_b64decode
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlsplit

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.config.security.security_config import Mechanism, MskIamLogin, SaslConfig
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from spark_kafka_sink.kafka.security.tokens.msk_iam import MskIamSource, region_of

pytestmark = pytest.mark.deep  # needs the extra msk-iam

HOST = "b-1.mine.abc123.c2.kafka.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use only the test's settings, without instance credentials."""
    for name in [variable for variable in os.environ if variable.startswith("AWS_")]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI-secret")


def signed(token: str) -> tuple[SplitResult, dict[str, str]]:
    url = urlsplit(urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    return url, {name: values[0] for name, values in parse_qs(url.query).items()}


def test_token_is_a_signed_connect_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the-session")
    token = MskIamSource(MskIamLogin(), "eu-west-1").fetch()
    url, query = signed(token.value)
    assert (url.scheme, url.netloc) == ("https", "kafka.eu-west-1.amazonaws.com")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Expires"] == "900"
    assert query["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert query["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert query["X-Amz-Security-Token"] == "the-session"
    assert len(query["X-Amz-Signature"]) == 64
    assert "wJalrXUtnFEMI" not in str(url)
    assert token.expires_ms is not None


def test_mechanism_on_the_wire_is_oauthbearer() -> None:
    config = SaslConfig(mechanism=Mechanism.AWS_MSK_IAM, login=MskIamLogin())
    exchange = exchange_for(config, HOST)
    first = exchange.initial_response()
    assert exchange.mechanism == "OAUTHBEARER"
    token = first.removeprefix(b"n,,\x01auth=Bearer ").removesuffix(b"\x01\x01").decode()
    assert signed(token)[0].netloc == "kafka.eu-west-1.amazonaws.com"
    assert exchange.next_response(b"") is None
    assert exchange_for(config, HOST).initial_response() == first


def test_credentials_of_a_profile(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(
        "[one]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = x\n"
    )
    token = MskIamSource(MskIamLogin(profile="one"), "us-east-1").fetch()
    assert signed(token.value)[1]["X-Amz-Credential"].startswith("AKIDPROFILE/")


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "eu-west-1"),
        (HOST.upper() + ".", "eu-west-1"),
        ("b-1-public.mine.abc.c2.kafka.us-east-2.amazonaws.com", "us-east-2"),
        ("boot-ab12.c1.kafka-serverless.ap-southeast-3.amazonaws.com", "ap-southeast-3"),
        ("b-1.mine.abc.c3.kafka.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-1.mine.abc.c3.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ],
)
def test_region_in_the_broker_name(host: str, region: str) -> None:
    assert region_of(MskIamLogin(), host) == region


def test_region_option_has_priority_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "sa-east-1")
    assert region_of(MskIamLogin(region="eu-north-1"), HOST) == "eu-north-1"
    assert region_of(MskIamLogin(), HOST) == "eu-west-1"
    assert region_of(MskIamLogin(), "broker.internal") == "sa-east-1"
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert region_of(MskIamLogin(), "kafka.eu-west-1.amazonaws.com.evil.test") == "us-west-2"


def test_unknown_region_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"broker\.internal.*AWS_REGION"):
        region_of(MskIamLogin(), "broker.internal")


def test_token_is_not_reused_after_the_credentials_have_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = MskIamSource(MskIamLogin(), "eu-west-1")
    keys = [source.cache_key, source.cache_key]
    (tmp_path / "credentials").write_text("[default]\n")
    keys.append(source.cache_key)
    monkeypatch.setenv("AWS_PROFILE", "other")
    keys.append(source.cache_key)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
    keys.append(source.cache_key)
    assert len(set(keys)) == len(keys) - 1


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(AuthenticationError, match="no AWS credentials"):
        MskIamSource(MskIamLogin(), "eu-west-1").fetch()


def test_missing_profile_is_named() -> None:
    with pytest.raises(AuthenticationError, match="nobody"):
        MskIamSource(MskIamLogin(profile="nobody"), "eu-west-1").fetch()


def test_role_that_cannot_be_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The STS port is closed."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    login = MskIamLogin(role_arn="arn:aws:iam::123456789012:role/writer")
    with pytest.raises(AuthenticationError, match=r"127\.0\.0\.1:1/") as caught:
        MskIamSource(login, "eu-west-1").fetch()
    assert "wJalrXUtnFEMI" not in str(caught.value)
