"""Errors and hints for authorization failures: the missing ACL and how to grant it.

Source: ``KafkaApis``; KIP-679 (a principal that can write to at least one topic can use an
idempotent producer).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.common.text import capitalized, listed
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.security.acl_commands import Acl, AclCommandBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.kafka.client.client import Client

_CLUSTER = ErrorCode.cluster_authorization_failed
_TOPIC = ErrorCode.topic_authorization_failed
_MAX_TOPICS = 3
"""Maximum number of topics listed in an error."""


class AclAdvisor:
    """Determines which ACL is missing, and for which principal, if a session is not authorized.

    Args:
        client: the session's client.
        dead_letter_topic: the dead letter topic, or None.
        transaction: the ACL that the session's transaction needs, or None.
    """

    def __init__(
        self, client: Client, dead_letter_topic: str | None, transaction: Acl | None = None
    ) -> None:
        config = client.config
        self.dead_letter_topic = dead_letter_topic
        self._metadata = client.metadata
        self._transaction = transaction
        self._commands = AclCommandBuilder.of(config)

    @property
    def principal(self) -> str:
        """The principal that needs the ACLs: "User:<name>", or a description in angle brackets."""
        return self._commands.principal

    def topic_error(self, topic: str) -> AuthorizationError:
        """Return the error for a topic that the metadata reports as TOPIC_AUTHORIZATION_FAILED."""
        resource = self._topic_text(topic)
        principal = self.principal
        if topic in self._metadata.denials.uncreatable:
            problem = f"{resource} does not exist, and {principal} is not authorized to create it"
        else:
            problem = (
                f"Describe on {resource} is denied to {principal}, so the topic might not exist"
            )
        return self._topic_error(problem, topic)

    def write_error(self, topic: str) -> AuthorizationError:
        """Return the error if the coordinator does not allow adding a partition of this topic."""
        return self._topic_error(
            f"Write on {self._topic_text(topic)} is denied to {self.principal}", topic
        )

    def producer_id_error(
        self, topics: Iterable[str], broker: str, code: int
    ) -> AuthorizationError:
        """Return the error for a denied InitProducerId request to write to `topics`."""
        also = "Write on every topic, and " if code == _CLUSTER else ""
        return AuthorizationError(
            f"the broker rejected the request for a producer id: {also}"
            f"{self._missing_acl(code, '')} is denied to {self.principal}",
            broker=broker,
            kafka_error=error_name(code),
            hint=self._idempotence_hint(topics) if code == _CLUSTER else self.hint(code, ""),
        )

    def transaction_error(self, code: int, broker: str, *, two_phase: bool) -> AuthorizationError:
        """Return the error for denied access to the transactional id."""
        acl = self._missing_acl(code, "")
        hint = capitalized(self.grant_hint(acl))
        if two_phase:
            hint += "; two-phase commit also needs TwoPhaseCommit on the transactional id, and "
            hint += "transaction.two.phase.commit.enable=true on every broker"
        return AuthorizationError(
            f"the coordinator rejected the transaction: {acl} is denied to {self.principal}",
            broker=broker,
            kafka_error=error_name(code),
            hint=hint,
        )

    def describe_denied(self, code: int, topic: str) -> str:
        """Return a short description of the access that a Produce response denies."""
        return f"{self._missing_acl(code, topic)} is denied to {self.principal}"

    def hint(self, code: int, topic: str) -> str:
        """Return a hint on how to grant the access that `code` denies; `topic` may be empty."""
        if code == _TOPIC and topic in self._metadata.denials.uncreatable:
            create = self.grant_hint(Acl(AclOperation.CREATE, ResourceType.TOPIC, topic))
            return f"Create the topic, or correct its name, or {create}"
        if code != _CLUSTER:
            return capitalized(self.grant_hint(self._missing_acl(code, topic)))
        return self._idempotence_hint((topic,) if topic else ())

    def grant_hint(self, acl: Acl) -> str:
        """Return a sentence with the command that grants the ACL."""
        is_topic = acl.resource is ResourceType.TOPIC
        return self._commands.grant_hint(acl, self._topic_text(acl.name) if is_topic else acl.on)

    def _topic_error(self, problem: str, topic: str) -> AuthorizationError:
        hint = self.hint(_TOPIC, topic)
        return AuthorizationError(problem, topic=topic, kafka_error=error_name(_TOPIC), hint=hint)

    def _idempotence_hint(self, topics: Iterable[str]) -> str:
        """Return a hint on the ACLs of an idempotent producer; `topics` may be incomplete."""
        names = sorted(topics, key=lambda name: (name == self.dead_letter_topic, name))
        if names:
            hints = [self.grant_hint(_write_acl(topic)) for topic in names]
            write = listed(hints, _MAX_TOPICS, "; ")
        else:
            write = self._commands.grant_hint(_write_acl("<topic>"), "each topic of the job")
        cluster = self.grant_hint(Acl(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER))
        return (
            f"{capitalized(write)} (enough since Kafka 2.8); earlier brokers also need {cluster}, "
            "or set kafka.enable.idempotence=false."
        )

    def _missing_acl(self, code: int, topic: str) -> Acl:
        """Return the missing ACL that an error code reports."""
        if code == _CLUSTER:
            return Acl(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        if code == ErrorCode.transactional_id_authorization_failed:
            unknown = Acl(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "<transactional.id>")
            return self._transaction or unknown
        return _write_acl(topic)

    def _topic_text(self, topic: str) -> str:
        if topic == self.dead_letter_topic:
            return f"the dead letter topic {topic}"
        return f"topic {topic}"


def _write_acl(topic: str) -> Acl:
    return Acl(AclOperation.WRITE, ResourceType.TOPIC, topic)
