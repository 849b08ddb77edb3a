"""How reports are merged and read: each field declares its rule and its reader.

`merge` and `merge_groups` apply the rules. A field without a rule belongs to the key: the parts of
one broker, topic, partition, codec or reason are merged. Rules are associative and commutative; a
default value is their identity.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field, fields
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from spark_kafka_sink.common.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Reader = Callable[[Any], Any]

_RULE = "merge"
_READER = "read"
_EMPTY = Histogram()
T = TypeVar("T")


class Rule(Protocol):
    """Returns the merged value of the values of one field."""

    def __call__(self, values: Iterable[Any], /) -> Any:
        """Merge the values; there is at least one."""


def merged_field(rule: Rule, default: Any = 0, read: Reader | None = None) -> Any:
    """Declare a field of a report, the rule by which it is merged, and how it is read from JSON."""
    return field(default=default, metadata={_RULE: rule} | ({_READER: read} if read else {}))


def key_field(read: Reader) -> Any:
    """Declare a field of the key, and how it is read from JSON."""
    return field(metadata={_READER: read})


def summed_field() -> Any:
    """Declare a field that is added up."""
    return merged_field(sum, read=int)


def histogram_field(read: Reader | None = Histogram.from_dict) -> Any:
    """Declare a field with a histogram."""
    return merged_field(Histogram.merge_all, _EMPTY, read)


def lowest(values: Iterable[Any]) -> Any:
    """Return the lowest known value, or None."""
    return min((value for value in values if value is not None), default=None)


def highest(values: Iterable[Any]) -> Any:
    """Return the highest known value, or None."""
    return max((value for value in values if value is not None), default=None)


def same(values: Iterable[Any]) -> Any:
    """Return the value if all are equal, otherwise None."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def flat(rule: Callable[[Iterable[Any]], Any], limit: int | None = None) -> Rule:
    """Return the rule for tuples: apply `rule` to all their items, and keep the first `limit`."""
    return lambda values: tuple(rule(item for value in values for item in value))[:limit]


def rules_of(kind: Any) -> Mapping[str, Rule]:
    """Return the rule of each field that is merged."""
    return {item.name: item.metadata[_RULE] for item in fields(kind) if _RULE in item.metadata}


def readers_of(kind: Any) -> dict[str, Reader]:
    """Return the reader of each field that declares one, by name."""
    return {item.name: item.metadata[_READER] for item in fields(kind) if _READER in item.metadata}


def _key_names(kind: Any) -> list[str]:
    return [item.name for item in fields(kind) if _RULE not in item.metadata]


def merge(kind: type[T], items: Sequence[Any]) -> T:
    """Merge at least one item with the same key. The result has the class `kind`."""
    rules = rules_of(kind)
    keys = {name: getattr(items[0], name) for name in _key_names(kind)}
    values = {name: rule([getattr(item, name) for item in items]) for name, rule in rules.items()}
    return kind(**keys, **values)


def merge_groups(kind: type[T], items: Iterable[T]) -> tuple[T, ...]:
    """Merge the items with equal keys. The result is sorted by key."""
    groups = defaultdict(list)
    key = attrgetter(*_key_names(kind))
    for item in items:
        groups[key(item)].append(item)
    return tuple(merge(kind, group) for _, group in sorted(groups.items(), key=itemgetter(0)))


def distinct(values: Iterable[str]) -> list[str]:
    """Return the different values, sorted."""
    return sorted(set(values))
