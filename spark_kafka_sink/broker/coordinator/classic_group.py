"""A consumer group of the classic protocol, with members, rebalances and committed offsets.

As in Kafka's ClassicGroup, a rebalance waits until every member has rejoined, and completes with
the leader's SyncGroup. Unlike in Kafka, there is no initial rebalance delay, so a test with a
single consumer starts immediately. A client that joins with the instance id of a static member
(KIP-345) replaces this member without a rebalance, and the former member is fenced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription

from spark_kafka_sink.broker.coordinator.committed_offsets import GroupOffsets
from spark_kafka_sink.broker.storage.journal import Journal
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.message_format import decode

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_VERSION_BYTES = 2
"""Size of the version number before a ConsumerProtocolSubscription."""
Reply: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Function that sends the response to a waiting request, given the response's fields."""


def _subscribed_topics(metadata: bytes) -> list[str] | None:
    """Return the topics in a ConsumerProtocolSubscription, or None if it cannot be parsed.

    The fields of version 0 are the first fields of all versions.
    """
    try:
        subscription, _ = decode(ConsumerProtocolSubscription, metadata, _VERSION_BYTES)
    except ProtocolError:
        return None
    return list(subscription.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """The contents of a JoinGroup request, with timeouts in seconds."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: dict[str, bytes]
    needs_known_id: bool
    """True for versions of the request in which new clients need a member id (KIP-394)."""
    may_skip_assignment: bool = False
    """True for versions in which the leader can be told to skip the assignment (KIP-814)."""


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """A group member."""

    id: str
    joined: JoinRequest
    expires: float
    """Monotonic time in seconds at which the session expires."""
    assignment: bytes = b""
    join: Reply | None = field(default=None, repr=False)
    """Sends the response to the member's waiting JoinGroup request."""
    sync: Reply | None = field(default=None, repr=False)
    """Sends the response to the member's waiting SyncGroup request."""

    @property
    def is_waiting(self) -> bool:
        """True if a request of the member is waiting. In that case, the session cannot expire."""
        return self.join is not None or self.sync is not None

    def extend_session(self, now: float) -> None:
        """Restart the member's session timeout."""
        self.expires = now + self.joined.session_timeout

    def respond_to_join(self, values: Mapping[str, Any]) -> None:
        """Respond to the member's JoinGroup request, if it is waiting."""
        reply, self.join = self.join, None
        if reply is not None:
            reply({"member_id": self.id} | dict(values))

    def respond_to_sync(self, values: Mapping[str, Any]) -> None:
        """Respond to the member's SyncGroup request, if it is waiting."""
        reply, self.sync = self.sync, None
        if reply is not None:
            reply(values)


class ClassicGroupState(StrEnum):
    """States of a group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True, kw_only=True)
class ClassicGroup:
    """A consumer group. Times are in monotonic seconds."""

    id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, GroupMember] = field(default_factory=dict)
    """Members by id, in the order in which they joined."""
    pending: dict[str, float] = field(default_factory=dict)
    """Expiration times of assigned member ids that have not joined yet (KIP-394)."""
    unsynced: set[str] = field(default_factory=set)
    """Members that have not sent SyncGroup in this generation."""
    rebalance_deadline: float = 0.0
    sync_deadline: float = 0.0
    offsets: GroupOffsets = field(default_factory=lambda: GroupOffsets(Journal(), ""))

    def join(self, joining: JoinRequest, reply: Reply, now: float) -> None:
        """Handle a request to join or rejoin the group.

        `reply` is called when the rebalance completes, or immediately if no rebalance is needed or
        the request fails.
        """
        if error := self._check_join(joining):
            reply({"error_code": error, "member_id": joining.member_id})
        elif joining.member_id in self.members:
            self._rejoin_member(self.members[joining.member_id], joining, reply, now)
        elif former := self.instance(joining.instance_id):
            self._replace_static_member(former, joining, reply, now)
        elif joining.member_id or not joining.needs_known_id or joining.instance_id is not None:
            self._add_member(joining, reply, now)
            self._rebalance(now)
        else:
            self._assign_id(joining, reply, now)

    def instance(self, instance_id: str | None) -> GroupMember | None:
        """Return the static member with this instance id, or None if it does not exist."""
        if instance_id is None:
            return None
        members = self.members.values()
        return next((known for known in members if known.joined.instance_id == instance_id), None)

    def identify(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return an error if a member id is unknown or was fenced by a newer static member."""
        if instance_id is not None:
            known = self.instance(instance_id)
            if known is not None and known.id != member_id:
                return ErrorCode.fenced_instance_id
            if known is None:
                return ErrorCode.unknown_member_id
        is_known = member_id in self.members
        return ErrorCode.none if is_known else ErrorCode.unknown_member_id

    def subscribes_to(self, topic: str) -> bool:
        """Return True if a member subscribes to the topic, or has an invalid subscription."""
        if not self.members or not self.protocol:
            return bool(self.members)
        metadata = [member.joined.protocols[self.protocol] for member in self.members.values()]
        subscriptions = map(_subscribed_topics, metadata)
        return any(topics is None or topic in topics for topics in subscriptions)

    def check(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        """Return an error if the member is unknown or fenced, or the generation is not current."""
        if error := self.identify(member_id, instance_id):
            return error
        return ErrorCode.none if generation == self.generation else ErrorCode.illegal_generation

    def sync(self, member_id: str, assignments: Mapping[str, bytes], reply: Reply) -> ErrorCode:
        """Handle SyncGroup. The leader's request provides the assignments of all members."""
        member = self.members[member_id]
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        self.unsynced.discard(member_id)
        member.sync = reply
        if self.state is ClassicGroupState.COMPLETING_REBALANCE and member_id == self.leader:
            for other in self.members.values():
                other.assignment = assignments.get(other.id, b"")
            self.state = ClassicGroupState.STABLE
        if self.state is ClassicGroupState.STABLE:
            for other in self.members.values():
                other.respond_to_sync(self._sync_response(other))
        return ErrorCode.none

    def heartbeat(self, member_id: str, now: float) -> ErrorCode:
        """Extend a member's session. Return REBALANCE_IN_PROGRESS if the member must rejoin."""
        if member_id in self.members:
            self.members[member_id].extend_session(now)
        is_preparing = self.state is ClassicGroupState.PREPARING_REBALANCE
        return ErrorCode.rebalance_in_progress if is_preparing else ErrorCode.none

    def leave(self, member_id: str, instance_id: str | None, now: float) -> ErrorCode:
        """Remove a member. Admin clients specify only its instance id (KIP-345)."""
        if not member_id:
            member = self.instance(instance_id)
            if member is None:
                return ErrorCode.unknown_member_id
            member_id = member.id
        elif self.pending.pop(member_id, None) is not None:
            self._finish_without_pending(now)
            return ErrorCode.none
        elif error := self.identify(member_id, instance_id):
            return error
        self.remove([member_id], now)
        return ErrorCode.none

    def remove(self, member_ids: Iterable[str], now: float) -> None:
        """Remove members, and start a rebalance of the remaining members."""
        removed = [self.members.pop(key) for key in list(member_ids) if key in self.members]
        for member in removed:
            self.unsynced.discard(member.id)
            for respond in (member.respond_to_join, member.respond_to_sync):
                respond({"error_code": ErrorCode.unknown_member_id})
        if removed:
            self._rebalance(now)

    def tick(self, now: float) -> None:
        """Remove expired and unsynced members. Complete a rebalance whose timeout has passed."""
        overdue = [member_id for member_id, expires in self.pending.items() if expires <= now]
        for member_id in overdue:
            del self.pending[member_id]
            self._finish_without_pending(now)
        idle = [member for member in self.members.values() if not member.is_waiting]
        expired = [member.id for member in idle if member.expires <= now]
        if self.unsynced and self.sync_deadline <= now:
            expired += self.unsynced
        self.remove(expired, now)
        if self.state is ClassicGroupState.PREPARING_REBALANCE and self.rebalance_deadline <= now:
            self._finish_join(now)

    def next_deadline(self) -> float | None:
        """Return the time of the next `tick` in monotonic seconds, or None if it has no work."""
        due = [
            *self.pending.values(),
            *(member.expires for member in self.members.values() if not member.is_waiting),
        ]
        if self.unsynced:
            due.append(self.sync_deadline)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            due.append(self.rebalance_deadline)
        return min(due, default=None)

    def _check_join(self, joining: JoinRequest) -> ErrorCode:
        offers = [member.joined.protocols for member in self.members.values()]
        common = set(joining.protocols).intersection(*offers)
        is_same_type = not offers or joining.protocol_type == self.protocol_type
        if not common or not joining.protocol_type or not is_same_type:
            return ErrorCode.inconsistent_group_protocol
        if not joining.member_id or joining.member_id in self.pending:
            return ErrorCode.none
        return self.identify(joining.member_id, joining.instance_id)

    def _assign_id(self, joining: JoinRequest, reply: Reply, now: float) -> None:
        """Assign an id to a new client, which must join again with this id to become a member.

        Without this step, a lost response would leave a member that no client uses (KIP-394).
        """
        member_id = _new_id(joining)
        self.pending[member_id] = now + joining.session_timeout
        reply({"error_code": ErrorCode.member_id_required, "member_id": member_id})

    def _add_member(self, joining: JoinRequest, reply: Reply, now: float) -> None:
        member_id = joining.member_id or _new_id(joining)
        self.pending.pop(member_id, None)
        self.protocol_type = joining.protocol_type
        member = GroupMember(id=member_id, joined=joining, expires=now, join=reply)
        member.extend_session(now)
        self.members[member_id] = member

    def _rejoin_member(
        self, member: GroupMember, joining: JoinRequest, reply: Reply, now: float
    ) -> None:
        is_same = list(member.joined.protocols.items()) == list(joining.protocols.items())
        is_leader = member.id == self.leader
        member.joined = joining
        member.join = reply
        member.extend_session(now)
        if is_same and (
            self.state is ClassicGroupState.COMPLETING_REBALANCE
            or (self.state is ClassicGroupState.STABLE and not is_leader)
        ):
            member.respond_to_join(self._join_response(shows_members=is_leader))
        else:
            self._rebalance(now)

    def _replace_static_member(
        self, former: GroupMember, joining: JoinRequest, reply: Reply, now: float
    ) -> None:
        """Replace a static member with a client that rejoins with the same instance id."""
        for respond in (former.respond_to_join, former.respond_to_sync):
            respond({"error_code": ErrorCode.fenced_instance_id})
        leader = self.leader
        new = GroupMember(id=_new_id(joining), joined=joining, expires=now, join=reply)
        new.assignment = former.assignment
        new.extend_session(now)
        replaced = [new if member is former else member for member in self.members.values()]
        self.members = {member.id: member for member in replaced}
        self.unsynced.discard(former.id)
        if leader == former.id:
            self.leader = new.id
        if self.state is not ClassicGroupState.STABLE or self._select_protocol() != self.protocol:
            self._rebalance(now)
        elif joining.may_skip_assignment:
            is_leader = self.leader == new.id
            response = self._join_response(shows_members=is_leader)
            new.respond_to_join(response | {"skip_assignment": is_leader})
        else:  # As leader, the client would assign partitions again (KAFKA-13435).
            new.respond_to_join(self._join_response(shows_members=False) | {"leader": leader})

    def _rebalance(self, now: float) -> None:
        if self.state is not ClassicGroupState.PREPARING_REBALANCE:
            self.state = ClassicGroupState.PREPARING_REBALANCE
            self.unsynced.clear()
            self.rebalance_deadline = now + self._longest_rebalance()
            for member in self.members.values():
                member.respond_to_sync({"error_code": ErrorCode.rebalance_in_progress})
        self._finish_join(now)

    def _longest_rebalance(self) -> float:
        timeouts = [member.joined.rebalance_timeout for member in self.members.values()]
        return max(timeouts, default=0.0)

    def _finish_join(self, now: float) -> None:
        absent = [member for member in self.members.values() if member.join is None]
        if (absent or self.pending) and now < self.rebalance_deadline:
            return
        for member in absent:
            if member.joined.instance_id is None:
                del self.members[member.id]
        if self.members and not self._choose_leader():
            self.rebalance_deadline = now + self._longest_rebalance()
            return
        self.generation += 1
        if not self.members:
            self.state = ClassicGroupState.EMPTY
            self.protocol = self.leader = ""
            return
        self._complete_join(now)

    def _choose_leader(self) -> bool:
        """Retain the leader if it has rejoined, or else choose the first member that has rejoined.

        Return False if no member has rejoined. In that case, only static members remain, which are
        removed when their sessions expire.
        """
        joined = [member.id for member in self.members.values() if member.join is not None]
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def _complete_join(self, now: float) -> None:
        """Respond to the JoinGroup requests of all members, which must send SyncGroup next."""
        self.state = ClassicGroupState.COMPLETING_REBALANCE
        self.protocol = self._select_protocol()
        self.unsynced = set(self.members)
        self.sync_deadline = now + self._longest_rebalance()
        for member in self.members.values():
            member.extend_session(now)
            member.respond_to_join(self._join_response(shows_members=member.id == self.leader))

    def _select_protocol(self) -> str:
        """Return the assignment protocol with the most votes.

        Every member votes for the first of its protocols that all members support.
        """
        offers = [list(member.joined.protocols) for member in self.members.values()]
        common = set(offers[0]).intersection(*offers)
        votes = Counter(next(name for name in offer if name in common) for offer in offers)
        return votes.most_common(1)[0][0]

    def _join_response(self, *, shows_members: bool) -> dict[str, object]:
        """Return the JoinGroup response for a member. Only the leader receives all members."""
        members = self.members.values() if shows_members else ()
        return {
            "generation_id": self.generation,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "leader": self.leader,
            "members": [
                {
                    "member_id": other.id,
                    "group_instance_id": other.joined.instance_id,
                    "metadata": other.joined.protocols[self.protocol],
                }
                for other in members
            ],
        }

    def _sync_response(self, member: GroupMember) -> FieldValues:
        return {
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol,
            "assignment": member.assignment,
        }

    def _finish_without_pending(self, now: float) -> None:
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            self._finish_join(now)


def _new_id(joining: JoinRequest) -> str:
    return f"{joining.instance_id or joining.client_id}-{uuid4()}"
