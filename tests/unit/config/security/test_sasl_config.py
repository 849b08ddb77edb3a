"""sasl.* options as users set them."""

import logging
import pickle
import re
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.sasl import resolve_references
from spark_kafka_sink.config.security.security_config import (
    JaasLogin,
    KerberosLogin,
    Login,
    Mechanism,
    MskIamLogin,
    PasswordLogin,
    RefreshPolicy,
    SaslConfig,
    SecurityConfig,
    SecurityProtocol,
    TlsConfig,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from tests.unit.config.parsing import config_error

MINIMAL = {"kafka.bootstrap.servers": "broker:9092", "kafka.security.protocol": "SASL_SSL"}
COMMON = "org.apache.kafka.common.security"
PLAIN = f"{COMMON}.plain.PlainLoginModule required"
SCRAM = f"{COMMON}.scram.ScramLoginModule required"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
IAM = "software.amazon.msk.auth.iam.IAMLoginModule required"
USER = 'username="alice" password="sentinel"'
JAAS = "kafka.sasl.jaas.config"


def security(options: dict[str, str]) -> SecurityConfig:
    return ProducerConfig.parse(
        MINIMAL | {f"kafka.{name}": value for name, value in options.items()}
    ).security


def parse(mechanism: str, jaas: str = "", **options: str) -> SaslConfig:
    """Parse options by name; two underscores stand for a dot."""
    settings = {name.replace("__", "."): value for name, value in options.items()}
    settings |= {"sasl.mechanism": mechanism} if mechanism else {}
    sasl = security(settings | ({"sasl.jaas.config": jaas} if jaas else {})).sasl
    assert sasl is not None
    return sasl


def login(mechanism: str, jaas: str = "", **options: str) -> Login:
    return resolve_references(parse(mechanism, jaas, **options))


def failure(mechanism: str, jaas: str = "", **options: str) -> str:
    return config_error(parse, mechanism, jaas, **options)


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_tls_and_sasl_are_present_if_the_protocol_uses_them(protocol: SecurityProtocol) -> None:
    options = {"sasl.username": "a", "sasl.password": "b", "sasl.mechanism": "PLAIN"}
    config = security(options | {"security.protocol": protocol.value.lower()})
    assert config.protocol is protocol
    assert config.tls == (TlsConfig() if protocol.uses_tls else None)
    assert (config.sasl is not None) is protocol.uses_sasl


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_password_from_jaas_and_from_librdkafka_options(mechanism: str) -> None:
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    assert parse(mechanism, f"{module} {USER};") == SaslConfig(
        mechanism=Mechanism(mechanism),
        login=PasswordLogin(
            username=Secret("alice", f"username in {JAAS}"),
            password=Secret("sentinel", f"password in {JAAS}"),
        ),
    )
    assert login(mechanism, sasl__username="alice", sasl__password="env:P") == PasswordLogin(
        username=Secret("alice", "kafka.sasl.username"),
        password=Secret("env:P", "kafka.sasl.password"),
    )


@pytest.mark.parametrize(
    ("mechanism", "meant"),
    [
        ("plain", "PLAIN"),
        ("Plain", "PLAIN"),
        ("PLAIM", "PLAIN"),
        ("scram-sha-512", "SCRAM-SHA-512"),
        ("SCRAM_SHA_256", "SCRAM-SHA-256"),
        ("OAuthBearer", "OAUTHBEARER"),
        ("aws_msk_iam", "AWS_MSK_IAM"),
    ],
)
def test_misspelled_mechanism_has_a_suggestion(mechanism: str, meant: str) -> None:
    """Java sends such a name to the broker, which rejects it."""
    assert failure(mechanism).endswith(f"Did you mean {meant}?")


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ('username="alice" passwort="sentinel"', "password"),
        ('username="alice" Password="sentinel"', "password"),
        ('user="alice" password="sentinel"', "username"),
        ('userName="alice" password="sentinel"', "username"),
    ],
)
def test_misspelled_login_module_option(options: str, meant: str) -> None:
    message = failure("PLAIN", f"{PLAIN} {options};")
    assert f"requires a {meant}. {JAAS} has an unknown option: did you mean {meant}? Set" in message


@pytest.mark.parametrize(
    ("mechanism", "jaas", "meant"),
    [
        ("SCRAM-SHA-512", f"{SCRAM} {USER} tokenAuth=true;", ["tokenauth"]),
        ("GSSAPI", f"{KERBEROS} serviceName=kafka usekeytab=true;", ["useKeyTab"]),
        ("AWS_MSK_IAM", f'{IAM} awsProfilName="x";', ["awsProfileName"]),
        ("SCRAM-SHA-512", f"{SCRAM} {USER} tokenauth=true extra=true;", []),
        ("GSSAPI", f"{KERBEROS} serviceName=kafka useKeyTab=true storeKey=true keyTab=x;", []),
    ],
)
def test_options_that_java_would_ignore_are_reported(
    mechanism: str, jaas: str, meant: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    login(mechanism, jaas)
    logged = [record.getMessage() for record in caplog.records]
    start = f"{JAAS} has an unknown option, which is ignored: did you mean"
    assert logged == [f"{start} {name}?" for name in meant]


@pytest.mark.parametrize("mechanism", Mechanism)
def test_every_mechanism_names_its_login_module(mechanism: Mechanism) -> None:
    other_module = IAM if mechanism is Mechanism.GSSAPI else KERBEROS
    error = failure(mechanism.value, f"{other_module};")
    assert re.search(r"or use [\w.]+LoginModule\.", error)


def test_plain_with_scram_login_module_would_expose_the_password() -> None:
    message = failure("PLAIN", f"{SCRAM} {USER};")
    assert "PLAIN, which sends the password" in message
    assert "ScramLoginModule, which never sends it" in message
    assert "SCRAM-SHA-256 or SCRAM-SHA-512, or" in message
    assert "sentinel" not in message


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_with_plain_login_module_works_as_in_java(
    mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert login(mechanism, f"{PLAIN} {USER};") == login(mechanism, f"{SCRAM} {USER};")
    assert f"the login uses {mechanism}" in caplog.text


@pytest.mark.parametrize(("text", "token"), [("true", True), ("TRUE", True), ("yes", False)])
def test_delegation_token(text: str, token: bool) -> None:
    parsed = login("SCRAM-SHA-512", f"{SCRAM} {USER} tokenauth={text};")
    assert isinstance(parsed, PasswordLogin)
    assert parsed.token_auth is token
    plain = login("PLAIN", f"{PLAIN} {USER} tokenauth={text};")
    assert isinstance(plain, PasswordLogin)
    assert not plain.token_auth


def test_same_user_in_both_places_is_accepted() -> None:
    parsed = login("PLAIN", f"{PLAIN} {USER};", sasl__username="alice", sasl__password="sentinel")
    assert isinstance(parsed, PasswordLogin)


@pytest.mark.parametrize(
    ("mechanism", "jaas", "options", "expected"),
    [
        (
            "SCRAM-SHA-256",
            "",
            {},
            "kafka.sasl.mechanism is SCRAM-SHA-256, which requires a username",
        ),
        ("PLAIN", "", {"sasl__username": "a"}, "is PLAIN, which requires a password"),
        ("PLAIN", f'{PLAIN} username="a";', {}, "is PLAIN, which requires a password"),
        ("PLAIN", f'{PLAIN} username="a" password="";', {}, "which requires a password"),
        ("PLAIN", "", {"sasl__username": "", "sasl__password": "x"}, "which requires a username"),
        (
            "PLAIN",
            f"{PLAIN} {USER};",
            {"sasl__password": "other"},
            f"kafka.sasl.password and password in {JAAS} have different values",
        ),
        (
            "",
            f"{PLAIN} {USER};",
            {},
            f"kafka.sasl.mechanism is GSSAPI, Java's default, but {JAAS} uses PlainLoginModule",
        ),
        ("", "", {}, "requires kafka.sasl.kerberos.service.name; GSSAPI is Java's default"),
        ("PLAIN", "sentinel", {}, f"{JAAS} has no control flag after"),
        ("scram-sha-256", "", {}, "allowed: GSSAPI, PLAIN, SCRAM-SHA-256"),
        (
            "PLAIN",
            f"{PLAIN} {USER};",
            {"sasl__login__refresh__window__factor": "0.4"},
            "kafka.sasl.login.refresh.window.factor is '0.4'; allowed: a number from 0.5 to 1.0",
        ),
        (
            "PLAIN",
            f"{PLAIN} {USER};",
            {"sasl__login__refresh__window__jitter": "x"},
            "kafka.sasl.login.refresh.window.jitter is 'x'; allowed: a number from 0.0 to 0.25",
        ),
        (
            "GSSAPI",
            f"{KERBEROS} useKeyTab=true;",
            {"sasl__kerberos__service__name": "kafka"},
            f"useKeyTab=true in {JAAS} requires keyTab",
        ),
        (
            "GSSAPI",
            f'{KERBEROS} serviceName="kafka";',
            {"sasl__kerberos__service__name": "broker"},
            "kafka.sasl.kerberos.service.name is 'broker', but serviceName in",
        ),
        (
            "GSSAPI",
            f'{KERBEROS} serviceName=kafka useKeyTab=true keyTab="/a" principal="a";',
            {"sasl__kerberos__keytab": "/b", "sasl__kerberos__principal": "a"},
            f"kafka.sasl.kerberos.keytab is '/b', but keyTab in {JAAS} is different",
        ),
        (
            "GSSAPI",
            f'{KERBEROS} serviceName=kafka principal="a";',
            {"sasl__kerberos__principal": "c"},
            f"kafka.sasl.kerberos.principal is 'c', but principal in {JAAS} is different",
        ),
        (
            "AWS_MSK_IAM",
            f'{IAM} awsRoleSecretAccessKey="sentinel";',
            {},
            f"awsRoleSecretAccessKey in {JAAS} is not supported",
        ),
    ],
)
def test_conflicting_or_missing_options(
    mechanism: str, jaas: str, options: dict[str, str], expected: str
) -> None:
    assert expected in failure(mechanism, jaas, **options)


def test_librdkafka_name_of_the_mechanism() -> None:
    settings = {"sasl.mechanisms": "PLAIN", "sasl.username": "a", "sasl.password": "b"}
    sasl = security(settings).sasl
    assert sasl is not None
    assert sasl.mechanism is Mechanism.PLAIN


def test_kerberos_by_keytab_and_by_ticket_cache() -> None:
    keytab = f'{KERBEROS} useKeyTab=true storeKey=true keyTab="/k" principal="a@R";'
    assert login("", keytab, sasl__kerberos__service__name="kafka") == KerberosLogin(
        service_name="kafka", principal="a@R", keytab="/k"
    )
    cache = f'{KERBEROS} useTicketCache=true ticketCache="/c" serviceName="kafka" keyTab="/no";'
    assert login("GSSAPI", cache) == KerberosLogin(service_name="kafka", ticket_cache="/c")
    assert login(
        "GSSAPI",
        sasl__kerberos__service__name="kafka",
        sasl__kerberos__keytab="/k",
        sasl__kerberos__principal="a@R",
    ) == KerberosLogin(service_name="kafka", principal="a@R", keytab="/k")


def test_msk_iam() -> None:
    assert login("AWS_MSK_IAM") == MskIamLogin()
    jaas = (
        f'{IAM} awsProfileName="dev" awsRoleArn="arn:aws:iam::1:role/x" awsDebugCreds=true '
        'awsRoleSessionName="me" awsStsRegion="eu-west-1";'
    )
    assert login("AWS_MSK_IAM", jaas) == MskIamLogin(
        profile="dev",
        role_arn="arn:aws:iam::1:role/x",
        role_session_name="me",
        sts_region="eu-west-1",
        debug_credentials=True,
    )


def test_token_refresh_options() -> None:
    sasl = parse(
        "PLAIN",
        f"{PLAIN} {USER};",
        sasl__login__refresh__window__factor="0.5",
        sasl__login__refresh__window__jitter="0.25",
        sasl__login__refresh__min__period__seconds="0",
        sasl__login__refresh__buffer__seconds="1",
    )
    assert sasl.refresh == RefreshPolicy(
        window_factor=0.5, window_jitter=0.25, min_period_seconds=0, buffer_seconds=1
    )
    assert parse("PLAIN", f"{PLAIN} {USER};").refresh == RefreshPolicy()


def test_jaas_config_in_a_file_is_passed_as_path_and_read_at_login(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f"{SCRAM} {USER};\n")
    config = parse("SCRAM-SHA-256", f"file:{file}")
    assert isinstance(config.login, JaasLogin)
    assert b"sentinel" not in pickle.dumps(config)
    first = resolve_references(pickle.loads(pickle.dumps(config)))
    file.write_text(f'{SCRAM} username="bob" password="other";')
    second = resolve_references(config)
    assert isinstance(first, PasswordLogin)
    assert isinstance(second, PasswordLogin)
    assert (first.password.reveal(), second.password.reveal()) == ("sentinel", "other")


def test_jaas_config_that_exists_only_on_executors_is_not_resolved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = parse("PLAIN", "env:ONLY_THERE")
    with pytest.raises(ConfigError, match="ONLY_THERE"):
        resolve_references(config)
    monkeypatch.setenv("ONLY_THERE", f"{PLAIN} {USER};")
    assert isinstance(resolve_references(config), PasswordLogin)


def test_jaas_config_in_a_file_is_checked_if_the_driver_has_it(tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f"{SCRAM} {USER};")
    assert "uses ScramLoginModule" in failure("PLAIN", f"file:{file}")


def test_values_in_a_jaas_config_may_be_references(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = login("PLAIN", f'{PLAIN} username="a" password="env:KAFKA_PASSWORD";')
    monkeypatch.setenv("KAFKA_PASSWORD", "sentinel")
    assert isinstance(parsed, PasswordLogin)
    assert parsed.password.reveal() == "sentinel"


def test_warning_names_options_that_the_protocol_does_not_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {
        "sasl.password": "sentinel",
        "ssl.ca.location": "/ca",
        "ssl.protocol": "TLS",
        "ssl.keystore.type": "BCFKS",
        "https.ca.location": "/ca",
    }
    with caplog.at_level(logging.WARNING):
        config = security({"security.protocol": "PLAINTEXT", **settings})
    assert config == SecurityConfig()
    assert sorted(record.getMessage() for record in caplog.records) == [
        f"Option kafka.{name} has no effect because kafka.security.protocol is PLAINTEXT"
        for name in ("https.ca.location", "sasl.password", "ssl.ca.location", "ssl.keystore.type")
    ]


def test_repr_contains_no_secret_and_different_secrets_differ() -> None:
    def config(password: str) -> ProducerConfig:
        jaas = f'{SCRAM} username="sentinel" password="{password}";'
        return ProducerConfig.parse(MINIMAL | {"kafka.sasl.mechanism": "SCRAM-SHA-256", JAAS: jaas})

    first, same, other = config("sentinel"), config("sentinel"), config("sentinel2")
    assert "sentinel" not in f"{first!r} {first}"
    assert first == same
    assert first != other
    assert len({first, same, other}) == 2


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_bootstrap_server_with_a_stronger_protocol_is_rejected(protocol: str) -> None:
    options = {
        "kafka.bootstrap.servers": "SASL_SSL://broker:9092",
        "kafka.security.protocol": protocol,
    }
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers") as caught:
        ProducerConfig.parse(options)
    assert "Set kafka.security.protocol=SASL_SSL" in str(caught.value)
    login = {
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "a",
        "kafka.sasl.password": "b",
    }
    fitting = options | login | {"kafka.security.protocol": "SASL_SSL"}
    assert ProducerConfig.parse(fitting).bootstrap_servers == ("broker:9092",)
