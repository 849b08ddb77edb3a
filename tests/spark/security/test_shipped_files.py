"""Stores that Spark ships with SparkFiles, to executors that have no other copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.support.shipping_child import ROWS, SHIPPED
from tests.support.clients.readers import by_confluent
from tests.support.security.doors import Door
from tests.support.security.listeners import Listener

if TYPE_CHECKING:
    from tests.support.security.secured import SecuredKafka

ROOT = Path(__file__).resolve().parents[3]
DOOR = Door(
    name="shipped",
    listener=Listener.MTLS,
    options={
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "trust.pem",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "client.p12",
        "ssl.keystore.password": "{store_password}",
    },
)


@pytest.mark.timeout(300)
def test_options_name_shipped_files(
    secured_kafka: SecuredKafka, unique_topic: str, tmp_path: Path
) -> None:
    topic = secured_kafka.admin.create_topic(unique_topic, 3)
    for name in SHIPPED:
        shutil.copy(secured_kafka.stores.path(name), tmp_path / name)
    options = json.dumps(DOOR.spark_options(secured_kafka))
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.support.shipping_child", tmp_path, topic, options],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = by_confluent(secured_kafka.bootstrap_servers, topic)
    assert sorted(int(record.value or b"-1") for record in found) == list(range(ROWS))
