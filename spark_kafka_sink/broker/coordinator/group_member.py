"""Members of a consumer group: their JoinGroup requests, and the answers that they wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Reply: TypeAlias = Callable[[Mapping[str, Any]], None]
"""Answers a request that waits, with the response's fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """What a JoinGroup request says; timeouts in seconds.

    `needs_known_id` and `may_skip_assignment` are what its version brings along (KIP-394, KIP-814).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocol_type: str
    protocols: dict[str, bytes]
    needs_known_id: bool
    may_skip_assignment: bool = False


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """A member; `join` and `sync` answer its waiting requests, `expires` is monotonic seconds."""

    id: str
    joined: JoinRequest
    expires: float
    assignment: bytes = b""
    join: Reply | None = field(default=None, repr=False)
    sync: Reply | None = field(default=None, repr=False)

    @property
    def waits(self) -> bool:
        """Whether a request of it is not answered yet: its session does not end meanwhile."""
        return self.join is not None or self.sync is not None

    def seen(self, now: float) -> None:
        """Start its session anew."""
        self.expires = now + self.joined.session_timeout

    def answer_join(self, values: Mapping[str, Any]) -> None:
        """Answer its JoinGroup, if it waits for one."""
        reply, self.join = self.join, None
        if reply is not None:
            reply({"member_id": self.id} | dict(values))

    def answer_sync(self, values: Mapping[str, Any]) -> None:
        """Answer its SyncGroup, if it waits for one."""
        reply, self.sync = self.sync, None
        if reply is not None:
            reply(values)
