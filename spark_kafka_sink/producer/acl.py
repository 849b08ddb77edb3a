"""Which right a producer lacks, by what a broker has denied it.

Source: ``KafkaApis``; KIP-679 (who may write to any topic may be an idempotent producer).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.security.acl import Acl, AclGuide, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.client.client import Client
    from spark_kafka_sink.client.metadata import TopicDenials
    from spark_kafka_sink.config.security.model import SecurityConfig

_CLUSTER = ErrorCode.cluster_authorization_failed
_TOPIC = ErrorCode.topic_authorization_failed
_MOST_TOPICS = 3
"""Topics that one error names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclAdvisor:
    """Says of each denial which ACL is missing for whom; made once per session.

    Args:
        security: who logs in, and how.
        server: a bootstrap server.
        denials: what the metadata says of refused topics.
        dead_letter_topic: None where there is none.
        transactional_id: None where nothing is written in a transaction.
        id_prefix: what the ids of all attempts begin with, where each has one of its own.
    """

    security: SecurityConfig
    server: str
    denials: Callable[[], TopicDenials]
    dead_letter_topic: str | None = None
    transactional_id: str | None = None
    id_prefix: str | None = None

    @classmethod
    def of(
        cls,
        client: Client,
        dead_letter_topic: str | None,
        transactional_id: str | None = None,
        id_prefix: str | None = None,
    ) -> AclAdvisor:
        """For a session on this client."""
        config, metadata = client.config, client.metadata
        return cls(
            security=config.security,
            server=config.bootstrap_servers[0],
            denials=lambda: metadata.denials,
            dead_letter_topic=dead_letter_topic,
            transactional_id=transactional_id,
            id_prefix=id_prefix,
        )

    @property
    def principal(self) -> str:
        """Whom the rights are for: "User:" and a name, or what it is of in angle brackets."""
        return self._guide.principal

    @property
    def _guide(self) -> AclGuide:
        return AclGuide(self.security, self.server)

    def refused_topic(self, topic: str) -> AuthorizationError:
        """The metadata has TOPIC_AUTHORIZATION_FAILED of a topic."""
        where, who = self._topic(topic), self.principal
        return AuthorizationError(
            f"{where} does not exist, and Create on it is denied to {who}"
            if topic in self.denials().uncreatable
            else f"Describe on {where} is denied to {who}, who can't know whether it exists",
            topic=topic,
            error=error_name(_TOPIC),
            hint=self.hint(_TOPIC, topic),
        )

    def refused_write(self, topic: str) -> AuthorizationError:
        """A coordinator does not take a partition of this topic into a transaction."""
        return AuthorizationError(
            f"Write on {self._topic(topic)} is denied to {self.principal}",
            topic=topic,
            error=error_name(_TOPIC),
            hint=self.hint(_TOPIC, topic),
        )

    def no_producer_id(self, topics: Iterable[str], broker: str, code: int) -> AuthorizationError:
        """InitProducerId was denied: `topics` are those that are to be written."""
        also = "Write on every topic, and " if code == _CLUSTER else ""
        return AuthorizationError(
            f"the broker refused a producer id: {also}{self._acl(code, '')} is denied to "
            f"{self.principal}",
            broker=broker,
            error=error_name(code),
            hint=self._idempotence(topics) if code == _CLUSTER else self.hint(code, ""),
        )

    def transaction_denied(self, code: int, broker: str, *, two_phase: bool) -> AuthorizationError:
        """A coordinator does not let this client use its transactional id."""
        acl = self._acl(code, "")
        hint = self.grant(acl)
        if two_phase:
            hint += "; two-phase commit also needs TwoPhaseCommit on it, and "
            hint += "transaction.two.phase.commit.enable=true on every broker"
        return AuthorizationError(
            f"the coordinator refused a transaction: {acl} is denied to {self.principal}",
            broker=broker,
            error=error_name(code),
            hint=hint,
        )

    def denied(self, code: int, topic: str) -> str:
        """What the answer to a Produce request denies, in a few words."""
        return f"{self._acl(code, topic)} is denied to {self.principal}"

    def hint(self, code: int, topic: str) -> str:
        """How to grant what an answer with this error code denies; `topic` may be empty."""
        if code == _TOPIC and topic in self.denials().uncreatable:
            create = self.grant(Acl(Operation.CREATE, ResourceType.TOPIC, topic))
            return f"create the topic, or correct its name, or {create}"
        if code != _CLUSTER:
            return self.grant(self._acl(code, topic))
        return self._idempotence((topic,) if topic else ())

    def grant(self, acl: Acl) -> str:
        """An instruction to grant a right, with the command that does."""
        return self._guide.grant(acl, self._on(acl))

    def _idempotence(self, topics: Iterable[str]) -> str:
        """How to grant what an idempotent producer needs; `topics` are those known so far."""
        known = sorted(topics, key=lambda name: (name == self.dead_letter_topic, name))
        if known:
            write = "; ".join(self.grant(_write(topic)) for topic in known[:_MOST_TOPICS])
            write += f" and {len(known) - _MOST_TOPICS} more" * (len(known) > _MOST_TOPICS)
        else:
            write = self._guide.grant(_write("<topic>"), "each topic of the job")
        cluster = self.grant(Acl(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER))
        return (
            f"{write} (enough since Kafka 2.8); before, also {cluster}, or set "
            "kafka.enable.idempotence=false"
        )

    def _acl(self, code: int, topic: str) -> Acl:
        """What a refusal with this error code is about."""
        if code == _CLUSTER:
            return Acl(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        if code == ErrorCode.transactional_id_authorization_failed:
            kind, one = ResourceType.TRANSACTIONAL_ID, self.transactional_id
            if self.id_prefix is not None:
                return Acl(Operation.WRITE, kind, self.id_prefix, prefixed=True)
            return Acl(Operation.WRITE, kind, one or "<transactional.id>")
        return _write(topic)

    def _on(self, acl: Acl) -> str:
        return self._topic(acl.name) if acl.resource is ResourceType.TOPIC else acl.on

    def _topic(self, topic: str) -> str:
        if topic == self.dead_letter_topic:
            return f"the dead letter topic {topic}"
        return f"topic {topic}"


def _write(topic: str) -> Acl:
    return Acl(Operation.WRITE, ResourceType.TOPIC, topic)
