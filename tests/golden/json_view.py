"""Comparison of message values with Kafka's JSON of them."""

import base64
import datetime as dt
import re
from dataclasses import MISSING, fields, is_dataclass
from typing import Any
from uuid import UUID

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MS = dt.timedelta(milliseconds=1)
_ZERO_UUID = "A" * 22


class Differs(AssertionError):  # noqa: N818 - a failed comparison
    """Kafka read another value than was written; the message is the field's path."""


def assert_same(ours: Any, theirs: Any, path: str = "") -> None:
    """Compare one of our values with Kafka's JSON of it.

    Raises:
        Differs: they are not the same.
    """
    if is_dataclass(ours):
        _same_fields(ours, theirs, path)
    elif isinstance(ours, tuple) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our, their, f"{path}[{index}]")
    elif theirs not in _views(ours):
        raise Differs(f"{path}: {ours!r} is {theirs!r} to Kafka")


def _same_fields(ours: Any, theirs: dict[str, Any], path: str) -> None:
    shown = {_our_name(name): value for name, value in theirs.items()}
    for field in fields(ours):
        value = getattr(ours, field.name)
        place = f"{path}.{field.name}"
        if field.name in shown:
            # Kafka's JSON omits the bytes of records; only null is shown.
            view = b"" if field.metadata.get("kafka_type") == "records" and value else value
            assert_same(view, shown.pop(field.name), place)
        elif "tag" not in field.metadata or value != _default(field):
            raise Differs(f"{place}: Kafka does not show it")
    if shown:
        raise Differs(f"{path}: Kafka also shows {sorted(shown)}")


def _our_name(name: str) -> str:
    """Return kio's spelling of Kafka's field name."""
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return snake.removesuffix("_ms")


def _default(field: Any) -> Any:
    return None if field.default is MISSING else field.default


def _views(value: Any) -> tuple[Any, ...]:
    """Return the JSON values that may represent `value`."""
    if value is None:
        return (None, -1, _ZERO_UUID)
    if isinstance(value, bytes | memoryview):
        return (base64.b64encode(value).decode(),)
    if isinstance(value, UUID):
        return (base64.urlsafe_b64encode(value.bytes).decode().rstrip("="),)
    if isinstance(value, dt.timedelta):
        return (value // _MS,)
    if isinstance(value, dt.datetime):
        return ((value - _EPOCH) // _MS,)
    return (value,)
