"""No message shows credentials of paths, URIs and option values."""

import logging
import pickle

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.masking import has_credentials, is_secret, redact_uri, redact_uris
from spark_kafka_sink.config.option_definition import OptionType
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from spark_kafka_sink.config.sink_config import SinkConfig

SENTINEL = "s3nt1nel-hunter2"
MINIMAL = {"kafka.bootstrap.servers": "broker:9092", "topic": "t"}
DROPPED = [
    "fs.s3a.secret.key",
    "some.password",
    "authToken",
    "kafka.metric.reporters",
    "kafka.group.id",
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase",
    "kafka.security.providers",
    *(f"kafka.{option.name}" for option in SECURITY_OPTIONS if option.kind is OptionType.PASSWORD),
]
"""Without security.protocol, a password is unused and must not be stored."""
REFUSED = [
    "kafka.transactional.id",
    "kafka.config.providers",
    "kafka.key.serializer",
    "kafka.my.password",
    "kafka.basic.auth.token",
    "kafka.sasl_jaas_config",
    "topics",
]


@pytest.fixture(autouse=True)
def repeat_warnings() -> None:
    warn_once.cache_clear()


@pytest.mark.parametrize("name", DROPPED)
def test_ignored_value_is_not_shown(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        config = SinkConfig.parse(MINIMAL | {name: SENTINEL})
    assert SENTINEL not in repr(config) + str(config) + caplog.text
    assert SENTINEL.encode() not in pickle.dumps(config)
    assert config == SinkConfig.parse(MINIMAL)


@pytest.mark.parametrize("name", REFUSED)
def test_rejected_value_is_not_shown(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), pytest.raises(ConfigError) as caught:
        SinkConfig.parse(MINIMAL | {name: SENTINEL})
    error = caught.value
    assert SENTINEL not in str(error) + repr(error) + caplog.text
    assert SENTINEL.encode() not in pickle.dumps(error)
    assert error.__context__ is None


@pytest.mark.parametrize(
    "path",
    [
        f"s3://key:{SENTINEL}@bucket/report.json",
        f"s3://{SENTINEL}@bucket/report.json",
        f"s3://bucket/report.json?secret_key={SENTINEL}",
        f"https://host/report.json?token={SENTINEL}",
        f"s3:/key:{SENTINEL}@bucket/report.json",
        f"s3:/{SENTINEL}@bucket/report.json",
        f"S3:///key:{SENTINEL}@bucket/report.json",
        f" s3://key:{SENTINEL}@bucket/report.json",
        f"s3://key:a/{SENTINEL}@bucket/report.json",
        f"s3://key:a?{SENTINEL}@bucket/report.json",
        f"s3://user@key:{SENTINEL}@bucket/report.json",
        f"s3:/bucket/report.json?secret_key={SENTINEL}",
        f"s3://bucket/report.json#Secret%5Fkey={SENTINEL}",
        f"abfs://container@account/report.json?sv=2022-11-02&sig={SENTINEL}",
        f"abfs://container@{SENTINEL}@account/report.json",
    ],
)
def test_path_with_credentials_is_rejected(path: str) -> None:
    for option in ("reportPath", "statisticsPath", "metrics.prometheus.textfile"):
        with pytest.raises(ConfigError, match=f"option {option} contains credentials") as caught:
            SinkConfig.parse(MINIMAL | {option: path})
        assert SENTINEL not in str(caught.value)
    assert SENTINEL not in redact_uri(path)


@pytest.mark.parametrize("scheme", ["", "http://", "http:/", "alice:/"])
@pytest.mark.parametrize(
    "address",
    [
        f"alice:{SENTINEL}@host:9091",
        f"alice:a/{SENTINEL}@host:9091",
        f"{SENTINEL}@host",
        f"host:9091?token={SENTINEL}",
    ],
)
def test_pushgateway_with_credentials_is_rejected(scheme: str, address: str) -> None:
    option = "metrics.prometheus.pushgateway"
    with pytest.raises(ConfigError, match=f"option {option} contains credentials") as caught:
        SinkConfig.parse(MINIMAL | {option: scheme + address})
    assert SENTINEL not in str(caught.value)


@pytest.mark.parametrize(
    "address", ["host:9091", "http://host:9091/a@b", "[::1]:9091/a@b", "https://[::1]/", "host/a@b"]
)
def test_pushgateway_without_credentials_is_kept(address: str) -> None:
    config = SinkConfig.parse(MINIMAL | {"metrics.prometheus.pushgateway": address})
    assert config.prometheus_pushgateway == address


@pytest.mark.parametrize(
    "path",
    [
        "/tmp/a@b/report.json",
        "a@b?sig=c/report.json",
        "s3://bucket/report.json?region=eu-1",
        "s3://bucket/a@b/report.json",
        "file:///tmp/r.json",
        "file:///a@b/r.json",
        "file:/a@b/r.json",
        "hdfs:///a@b/r.json",
        "hdfs://host:8020/a@b/r.json",
        "abfs://container@127.0.0.1:10000/a@b/r.json",
    ],
)
def test_report_path_without_credentials_is_kept(path: str) -> None:
    assert not has_credentials(path)
    assert SinkConfig.parse(MINIMAL | {"reportPath": path}).report_path == path


@pytest.mark.parametrize(
    "name",
    [
        "ssl.key.password",
        "client.secret",
        "jaas",
        "Token",
        "ssl.keystore.key",
        "access_key",
        "sig",
        "X-Amz-Signature",
    ],
)
def test_names_of_secrets_are_recognized(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["region", "endpoint_override", "scheme", "keys", "sigma"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name)


def test_uris_in_a_text_are_redacted() -> None:
    """Arrow's errors contain URLs that are built from the parts of a URI."""
    text = (
        f"Get of 'http://user:{SENTINEL}@host:1/a?b=1&sig={SENTINEL}' failed: "
        f'"s3:/key:{SENTINEL}@bucket" and https://host/x?{SENTINEL}, code: /403?'
    )
    assert redact_uris(text) == (
        "Get of 'http://host:1/a' failed: \"s3:/bucket\" and https://host/x code: /403?"
    )


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
def test_container_of_an_azure_uri_is_not_a_user(scheme: str) -> None:
    path = f"{scheme}://container@account.dfs.core.windows.net/reports/{{batchId}}.json"
    assert SinkConfig.parse(MINIMAL | {"reportPath": path}).report_path == path
    assert redact_uri(path) == path
    assert has_credentials(path.replace("container@", f"container:{SENTINEL}@"))
    assert SENTINEL not in redact_uri(path.replace("container@", f"container:{SENTINEL}@"))
