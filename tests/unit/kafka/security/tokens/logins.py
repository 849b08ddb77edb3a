"""Logins and tokens for tests."""

import json
from base64 import urlsafe_b64encode
from typing import Any

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin

SECRET = "s3cr3t:wörd+/="


def client_login(url: str, secret: str = SECRET, **settings: Any) -> ClientCredentialsLogin:
    return ClientCredentialsLogin(
        token_endpoint_url=url,
        client_id=Secret("the-client", "kafka.sasl.oauthbearer.client.credentials.client.id"),
        client_secret=Secret(secret, "kafka.sasl.oauthbearer.client.credentials.client.secret"),
        **settings,
    )


def jwt(**claims: Any) -> str:
    parts = [{"alg": "RS256"}, claims]
    encoded = [urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])
