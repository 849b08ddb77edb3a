"""Offsets, entry ids and Redis keys, without a server."""

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.config import BrokerConfig
from spark_kafka_sink.broker.redis.entries import EntryIds
from spark_kafka_sink.broker.redis.redis_connection import RedisLocation
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import install_command

QUICK = settings(max_examples=200, deadline=None, database=None)
BITS = st.integers(1, 20)
TIMES = st.integers(0, 2**42)


def test_formula() -> None:
    ids = EntryIds()
    assert ids.offset(1234567890123, 0) == 1234567890123 << 10 == 1264197519485952
    assert ids.offset(1234567890123, 1) == 1264197519485953
    assert ids.text(1264197519485953) == b"1234567890123-1"


@QUICK
@given(bits=BITS, offset=st.integers(0, 2**63 - 1))
def test_every_offset_has_one_id(bits: int, offset: int) -> None:
    ids = EntryIds(bits)
    assert ids.offset(*ids.parts(offset)) == offset
    assert ids.read(ids.text(offset)) == offset


@QUICK
@given(bits=BITS, milliseconds=TIMES, data=st.data())
def test_every_id_that_fits_has_one_offset(
    bits: int, milliseconds: int, data: st.DataObject
) -> None:
    ids = EntryIds(bits)
    sequence = data.draw(st.integers(0, 2**bits - 1))
    offset = ids.offset(milliseconds, sequence)
    assert ids.parts(offset) == (milliseconds, sequence)
    assert 0 <= offset < 2**63
    with pytest.raises(ValueError, match="needs more than"):
        ids.offset(milliseconds, 2**bits)


@QUICK
@given(bits=BITS, first=TIMES, steps=st.lists(st.tuples(st.integers(-5, 5), st.integers(1, 5000))))
def test_batches_never_overlap_at_any_rate(
    bits: int, first: int, steps: list[tuple[int, int]]
) -> None:
    """Thousands of records per millisecond, or a clock set back: ids only grow."""
    ids, now, end, last_id = EntryIds(bits), first, 0, (-1, 0)
    for move, count in steps:
        now = max(0, now + move)
        base = ids.next_offset(end, now)
        assert base >= end
        assert base == end or ids.parts(base) == (now, 0)
        for offset in sorted({base, base + count - 1}):
            assert ids.parts(offset) > last_id
            assert ids.parts(offset)[1] < 2**bits
            last_id = ids.parts(offset)
        end = base + count


@pytest.mark.parametrize("bits", [0, 21, -1])
def test_bits_out_of_range(bits: int) -> None:
    with pytest.raises(ConfigError, match="sequence_bits"):
        EntryIds(bits)


def test_url() -> None:
    url = "redis://u:secret@h:1/3?prefix=p&sequence_bits=12&replicas=2&timeout_ms=7&db=4"
    place = RedisLocation.parse(url)
    assert (place.prefix, place.ids, place.replicas, place.timeout_ms) == ("p", EntryIds(12), 2, 7)
    assert place.url == "redis://u:secret@h:1/3?db=4"
    assert place.address == "redis://h:1/3"
    assert place.stream("orders", 0) == "p:orders:0"
    assert "secret" not in repr(place)
    assert "secret" not in repr(BrokerConfig(storage=url))


@pytest.mark.parametrize("url", ["unix:///run/redis.sock", "rediss://h", "redis://h/1?ssl=a%26b"])
def test_url_is_passed_to_redis(url: str) -> None:
    assert RedisLocation.parse(url).url == url


def test_short_url() -> None:
    place = RedisLocation.parse("redis://h")
    assert (place.prefix, place.ids.sequence_bits, place.replicas) == ("korvet", 10, 0)


@pytest.mark.parametrize(
    "url", ["memory", "http://h", "redis://h?replicas=many", "redis://h?sequence_bits=40"]
)
def test_invalid_url(url: str) -> None:
    with pytest.raises(ConfigError):
        RedisLocation.parse(url)


def test_url_that_redis_py_rejects() -> None:
    with pytest.raises(ConfigError, match="redis://h") as caught:
        EmbeddedBroker(storage="redis://:secret@h:port").start()
    assert "secret" not in str(caught.value)


def test_data_dir_and_redis_are_mutually_exclusive() -> None:
    with pytest.raises(ConfigError, match="data_dir"):
        BrokerConfig(storage="redis://h", data_dir="x")


def test_without_redis_py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("redis"))):
        EmbeddedBroker(storage="redis://127.0.0.1").start()
