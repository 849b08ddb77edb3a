"""Exactly-once writes with the ACLs in docs/exactly-once.md, and with one ACL missing."""

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from tests.spark.exactly_once.exactly_once_writes import options
from tests.spark.support.sink import Sink
from tests.support.security.client_configs import TRUST, ClientConfig, password_options
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User, add_acls
from tools.support.readers import numbers_in

CLIENT = ClientConfig(
    "erin", Listener.SASL_SSL, {**TRUST, **password_options("SCRAM-SHA-512", User.ERIN)}
)
DESCRIBE, READ, WRITE = AclOperation.DESCRIBE, AclOperation.READ, AclOperation.WRITE


def allow(kafka: SecuredKafka, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    pattern = ResourcePatternType.LITERAL
    if kind is ResourceType.TRANSACTIONAL_ID:
        pattern = ResourcePatternType.PREFIXED
    bindings = [
        AclBinding(
            kind, name, pattern, f"User:{User.ERIN}", "*", operation, AclPermissionType.ALLOW
        )
        for operation in operations
    ]
    add_acls(kafka.admin.client(), bindings)


def test_acls_of_exactly_once_writes(spark: SparkSession, kafka: SecuredKafka, topic: str) -> None:
    log = f"{topic}-decisions"
    sink = Sink(spark, kafka.servers(CLIENT.listener))
    rows = spark.range(0, 30, 1, 2).selectExpr("CAST(id AS STRING) AS value")
    settings = {
        **CLIENT.spark_options(kafka),
        **options(topic, decisionLogTopic=log),
        "topic": topic,
    }
    settings["kafka.max.block.ms"] = "10000"
    allow(kafka, ResourceType.TOPIC, topic, WRITE, DESCRIBE)
    allow(kafka, ResourceType.TOPIC, log, READ, WRITE, DESCRIBE, AclOperation.CREATE)
    with pytest.raises(Exception, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        sink.write(rows, **settings)
    allow(kafka, ResourceType.TRANSACTIONAL_ID, f"{topic}/", WRITE, DESCRIBE)
    sink.write(rows, **settings)
    assert numbers_in(kafka.bootstrap_servers, topic) == list(range(30))
