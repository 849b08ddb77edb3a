"""Logins for tests."""

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import PasswordLogin


def password_login(name: str, password: str, *, token_auth: bool = False) -> PasswordLogin:
    return PasswordLogin(
        username=Secret(name, "kafka.sasl.username"),
        password=Secret(password, "kafka.sasl.password"),
        token_auth=token_auth,
    )
