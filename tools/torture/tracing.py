"""Everything that a run does, in one file: the producer's own events and those of the proxies."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.torture.cluster import TortureCluster

CONTEXTS = "broker,metadata,queue,msg,protocol,eos"
_FORMAT = logging.Formatter("%(created).3f %(message)s")
_PROXY = logging.getLogger("spark_kafka_sink.torture")


@contextmanager
def traced(cluster: TortureCluster, to: TextIO) -> Iterator[None]:
    """Write it to `to` meanwhile."""
    handler = logging.StreamHandler(to)
    handler.setFormatter(_FORMAT)
    logger = logging.getLogger("spark_kafka_sink")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    for proxy in cluster.all_proxies:
        proxy.tell = _PROXY.debug
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        for proxy in cluster.all_proxies:
            proxy.tell = None
