"""Consumer groups of the classic protocol: join, sync, heartbeat, leave, and offsets.

As Kafka's GroupCoordinator: a rebalance waits until every member has joined again, the leader's
SyncGroup ends it. There is no initial delay, so that a test's only consumer starts at once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING
from uuid import uuid4

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.group_offsets import KIND, GroupOffsets
from spark_kafka_sink.broker.journal import Journal
from spark_kafka_sink.broker.members import Joining, Member, Reply

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NO_GENERATION = -1


class GroupState(StrEnum):
    """States of a group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True, kw_only=True)
class Group:
    """One group; members by id, in the order in which they came."""

    id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)
    rebalance_deadline: float = 0.0
    offsets: GroupOffsets = field(default_factory=lambda: GroupOffsets(Journal(), ""))

    def join(self, joining: Joining, reply: Reply, now: float) -> None:
        """Take a member in; `reply` comes when the rebalance is over, or at once with an error."""
        if error := self._refusal(joining):
            reply({"error_code": error, "member_id": joining.member_id})
            return
        if self._needs_id(joining):
            member_id = _new_id(joining)
            self.expected.add(member_id)
            reply({"error_code": ErrorCode.member_id_required, "member_id": member_id})
            return
        former = self.members.get(joining.member_id)
        member = former or self._admit(joining, now)
        unchanged = former is not None and former.joined.protocols == joining.protocols
        member.joined = joining
        member.join = reply
        member.seen(now)
        settled = self.state in {GroupState.STABLE, GroupState.COMPLETING_REBALANCE}
        if settled and unchanged and member.id != self.leader:
            self._answer_join(member)
        else:
            self._rebalance(now)

    def _refusal(self, joining: Joining) -> ErrorCode:
        known = self.members.keys() | self.expected
        if joining.member_id and joining.member_id not in known:
            return ErrorCode.unknown_member_id
        others = [m for m in self.members.values() if m.id != joining.member_id]
        common = set(joining.protocols).intersection(*(m.joined.protocols for m in others))
        if not common or (others and joining.protocol_type != self.protocol_type):
            return ErrorCode.inconsistent_group_protocol
        return ErrorCode.none

    def _needs_id(self, joining: Joining) -> bool:
        """A new client gets its id first, so that a lost answer leaves no ghost (KIP-394)."""
        return joining.needs_known_id and not joining.member_id and joining.instance_id is None

    def _admit(self, joining: Joining, now: float) -> Member:
        self._replace_instance(joining)
        member_id = joining.member_id or _new_id(joining)
        self.expected.discard(member_id)
        self.protocol_type = joining.protocol_type
        member = Member(id=member_id, joined=joining, expires=now)
        self.members[member_id] = member
        return member

    def _replace_instance(self, joining: Joining) -> None:
        """A static member that starts again takes the place of its former self (KIP-345)."""
        former = self.instance(joining.instance_id)
        if former is None:
            return
        for answer in (former.answer_join, former.answer_sync):
            answer({"error_code": ErrorCode.fenced_instance_id})
        del self.members[former.id]

    def instance(self, instance_id: str | None) -> Member | None:
        """Find a static member."""
        if instance_id is None:
            return None
        found = (m for m in self.members.values() if m.joined.instance_id == instance_id)
        return next(found, None)

    def _rebalance(self, now: float) -> None:
        if self.state is not GroupState.PREPARING_REBALANCE:
            self.state = GroupState.PREPARING_REBALANCE
            timeouts = (m.joined.rebalance_timeout for m in self.members.values())
            self.rebalance_deadline = now + max(timeouts, default=0.0)
            for member in self.members.values():
                member.answer_sync({"error_code": ErrorCode.rebalance_in_progress})
        self._finish_join(now)

    def _finish_join(self, now: float) -> None:
        late = [m for m in self.members.values() if m.join is None]
        if late and now < self.rebalance_deadline:
            return
        for member in late:
            del self.members[member.id]
        self.generation += 1
        if not self.members:
            self.state = GroupState.EMPTY
            self.protocol = self.leader = ""
            return
        self.state = GroupState.COMPLETING_REBALANCE
        self.protocol = self._vote()
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        for member in self.members.values():
            member.seen(now)
            self._answer_join(member)

    def _vote(self) -> str:
        """Every member votes for the first of its protocols that all of them have."""
        offers = [list(m.joined.protocols) for m in self.members.values()]
        common = set(offers[0]).intersection(*offers)
        votes = Counter(next(p for p in offer if p in common) for offer in offers)
        return votes.most_common(1)[0][0]

    def _answer_join(self, member: Member) -> None:
        others = self.members.values() if member.id == self.leader else ()
        member.answer_join(
            {
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
                    for other in others
                ],
            }
        )

    def check(self, member_id: str, generation: int) -> ErrorCode:
        """Judge whether a member speaks for the current generation."""
        if member_id not in self.members:
            return ErrorCode.unknown_member_id
        return ErrorCode.none if generation == self.generation else ErrorCode.illegal_generation

    def sync(self, member_id: str, assignments: Mapping[str, bytes], reply: Reply) -> ErrorCode:
        """Hand out assignments; the answer comes when the leader has given them."""
        member = self.members[member_id]
        if self.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        member.sync = reply
        if self.state is GroupState.COMPLETING_REBALANCE and member_id == self.leader:
            for other in self.members.values():
                other.assignment = assignments.get(other.id, b"")
            self.state = GroupState.STABLE
        if self.state is GroupState.STABLE:
            for other in self.members.values():
                self._answer_sync(other)
        return ErrorCode.none

    def _answer_sync(self, member: Member) -> None:
        member.answer_sync(
            {
                "protocol_type": self.protocol_type,
                "protocol_name": self.protocol,
                "assignment": member.assignment,
            }
        )

    def heartbeat(self, member_id: str, now: float) -> ErrorCode:
        """Keep a member's session; say whether it should join again."""
        self.members[member_id].seen(now)
        preparing = self.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.rebalance_in_progress if preparing else ErrorCode.none

    def remove(self, member_ids: Iterable[str], now: float) -> None:
        """Let members go; the others share their partitions."""
        gone = [self.members.pop(i) for i in list(member_ids) if i in self.members]
        for member in gone:
            for answer in (member.answer_join, member.answer_sync):
                answer({"error_code": ErrorCode.unknown_member_id})
        if gone:
            self._rebalance(now)

    def tick(self, now: float) -> None:
        """Remove members that are late, and end a rebalance that took too long."""
        late = [m.id for m in self.members.values() if m.expires <= now and not m.waits]
        self.remove(late, now)
        if self.state is GroupState.PREPARING_REBALANCE and self.rebalance_deadline <= now:
            self._finish_join(now)


def _new_id(joining: Joining) -> str:
    return f"{joining.instance_id or joining.client_id}-{uuid4()}"


class Groups:
    """All groups by id.

    Args:
        journal: holds the offsets that were committed to an earlier broker.
    """

    __slots__ = ("_groups", "_journal")

    def __init__(self, journal: Journal | None = None) -> None:
        self._groups: dict[str, Group] = {}
        self._journal = journal or Journal()
        for group_id in {str(key[0]) for key in self._journal.all(KIND)}:
            self.get(group_id)

    def all(self) -> list[Group]:
        """Every group."""
        return list(self._groups.values())

    def find(self, group_id: str) -> Group | None:
        """Find a group."""
        return self._groups.get(group_id)

    def peek(self, group_id: str) -> Group:
        """Find a group, or an empty one that is not kept: strangers do not begin groups."""
        return self._groups.get(group_id) or Group(id=group_id)

    def get(self, group_id: str) -> Group:
        """Find a group, or begin it."""
        group = self._groups.get(group_id)
        if group is None:
            offsets = GroupOffsets(self._journal, group_id)
            group = self._groups[group_id] = Group(id=group_id, offsets=offsets)
        return group

    def delete(self, group_id: str) -> None:
        """Forget a group and its offsets."""
        self._groups.pop(group_id).offsets.clear()

    def forget_topic(self, name: str) -> None:
        """Drop all groups' offsets of a topic that is deleted."""
        for group in self._groups.values():
            for place in [place for place in group.offsets if place[0] == name]:
                del group.offsets[place]

    def tick(self, now: float) -> None:
        """See `Group.tick`."""
        for group in self._groups.values():
            group.tick(now)
