"""The start of a streaming query, for which the schemas of key and value stay the same.

A stream is planned for each micro-batch, in a process that plans all queries of a Spark session.
The schemas of a query's first micro-batch are reused until the query stops or restarts.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles

_MAX_CACHED_ROLES = 64
_cached_roles: dict[Hashable, _CachedRoles] = {}
"""The columns' roles of the streams that this process plans, with complete specs.

foreachBatch plans in the threads of the queries.
"""
_cached_roles_lock = Lock()
"""Guards `_cached_roles`."""


@dataclass(frozen=True, slots=True)
class StreamStart:
    """One start of a streaming query."""

    name: str
    """Identifies the stream in its Spark session."""
    latest: tuple[int, int] | None = (0, 0)
    """When the latest query of the Spark session started, in any unit; None if unknown. The default
    if the name identifies the start.
    """


@dataclass(frozen=True, slots=True)
class _CachedRoles:
    """Roles, and when the latest query of the Spark session had started as they were completed."""

    roles: ColumnRoles
    latest: tuple[int, int]

    def is_valid_for(self, start: StreamStart) -> bool:
        """Return True unless the stream might have restarted since then."""
        return start.latest is not None and start.latest <= self.latest


def cached_roles(
    start: StreamStart, key: Hashable, complete: Callable[[], ColumnRoles]
) -> ColumnRoles:
    """Return the roles that `complete` returned for this key since the start of the query."""
    with _cached_roles_lock:
        cached = _cached_roles.get(key)
    if cached is not None and cached.is_valid_for(start):
        return cached.roles
    completed = complete()
    if start.latest is not None:
        with _cached_roles_lock:
            _cached_roles.pop(key, None)
            _cached_roles[key] = _CachedRoles(completed, start.latest)
            while len(_cached_roles) > _MAX_CACHED_ROLES:
                del _cached_roles[next(iter(_cached_roles))]
    return completed
