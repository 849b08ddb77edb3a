"""A per-row JSON reference for the columnar encoder."""

import base64
import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

ZONE = "Europe/Berlin"


def expected(type_: pa.DataType, value: Any) -> Any:
    """Return the value that a JSON reader sees, with Decimals for fractional numbers."""
    if value is None:
        return None
    if isinstance(type_, pa.StructType):
        pairs = ((field.name, expected(field.type, value[field.name])) for field in type_)
        return {name: item for name, item in pairs if item is not None}
    if isinstance(type_, pa.MapType):
        return {_key(type_.key_type, key): expected(type_.item_type, item) for key, item in value}
    if isinstance(type_, pa.ListType):
        return [expected(type_.value_type, item) for item in value]
    if isinstance(value, float):
        return _float(type_, value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _time(value) if isinstance(value, dt.date | dt.time | dt.timedelta) else value


def _key(type_: pa.DataType, key: Any) -> str:
    text = expected(type_, key)
    return text if isinstance(text, str) else json.dumps(text)


def _float(type_: pa.DataType, value: float) -> Any:
    if math.isfinite(value):
        return Shortest(value, is_single=type_ == pa.float32())
    return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"


class Shortest:
    """Equal to every decimal that is read as this floating-point number."""

    def __init__(self, value: float, *, is_single: bool) -> None:
        self.value, self.is_single = value, is_single

    def __repr__(self) -> str:
        return f"Shortest({self.value!r})"

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decimal):
            return False
        number = float(other)
        if self.is_single:
            number = float(np.float32(number))
        signs = math.copysign(1, number) == math.copysign(1, self.value)
        return number == self.value and signs and len(other.as_tuple().digits) <= 18


def _time(value: Any) -> str:
    if isinstance(value, dt.timedelta):
        micros = abs(value) // dt.timedelta(microseconds=1)
        seconds, micros = divmod(micros, 10**6)
        clock = f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        sign = "-" if value < dt.timedelta(0) else ""
        return f"INTERVAL '{sign}{seconds // 86400} {clock}{_fraction(micros)}' DAY TO SECOND"
    if isinstance(value, dt.time):
        return value.isoformat("seconds") + _fraction(value.microsecond)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            return value.isoformat(timespec="milliseconds")
        return value.astimezone(ZoneInfo(ZONE)).isoformat(timespec="milliseconds")
    return value.isoformat() if isinstance(value, dt.date) else ""


def _fraction(micros: int) -> str:
    return f".{micros:06}".rstrip("0") if micros else ""


def read(text: str | None) -> Any:
    """Parse JSON with Decimals for fractional numbers."""
    return None if text is None else json.loads(text, parse_float=Decimal)
