"""Key stores and trust stores that Spark distributes to executors with SparkFiles."""

import json
import shutil
from pathlib import Path

import pytest

from tests.spark.support.children import run_child
from tests.spark.support.shipping_child import ROWS
from tests.support.security.client_configs import ClientConfig, jaas
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User, password
from tools.support.readers import numbers_in

STORES = ("trust.pem", "client.p12")
CERTIFICATE_CLIENT = ClientConfig(
    "certificate",
    Listener.MTLS,
    {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "trust.pem",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "client.p12",
        "ssl.keystore.password": "{store_password}",
    },
)
PASSWORD_CLIENT = ClientConfig(
    "password",
    Listener.SASL_SSL,
    {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "trust.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "file:login.jaas",
    },
)
LOGIN = jaas(
    "org.apache.kafka.common.security.scram.ScramLoginModule",
    username=User.ALICE.value,
    password="file:alice.password",
)
"""Refers to another distributed file."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("master", ["local-cluster[2,1,500]", "local[2]"])
def test_options_with_paths_of_distributed_files(
    secured_kafka: SecuredKafka, unique_topic: str, tmp_path: Path, master: str
) -> None:
    """Executors have the files in their working directories; in local mode they are elsewhere."""
    for name in STORES:
        shutil.copy(secured_kafka.stores.path(name), tmp_path / name)
    (tmp_path / "login.jaas").write_text(LOGIN)
    (tmp_path / "alice.password").write_text(password(User.ALICE))
    writes = {
        secured_kafka.admin.create_topic(f"{unique_topic}-{number}", 3): client.spark_options(
            secured_kafka
        )
        for number, client in enumerate((CERTIFICATE_CLIENT, PASSWORD_CLIENT))
    }
    run_child("shipping_child", master, tmp_path, json.dumps(writes))
    for topic in writes:
        assert numbers_in(secured_kafka.bootstrap_servers, topic) == list(range(ROWS))
