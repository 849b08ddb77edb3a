"""Holds back the commit of a transaction on its way to the broker, until it is let go."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import TYPE_CHECKING

from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import read_request_header, read_request_start
from spark_kafka_sink.protocol.versions import ApiKey, request_type
from tools.torture.network.proxy import Pipe, Proxy

if TYPE_CHECKING:
    import socket

_LONGEST_S = 60.0


@dataclass(slots=True)
class EndTxns:
    """Shared by the gates of a cluster: of the transactions whose ids `pattern` begins the
    `wanted`th is held; one is known by its id and its producer's epoch."""

    pattern: str = ""
    wanted: int = 0
    reached: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)
    _seen: set[tuple[str, int, int]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def arm(self, pattern: str, wanted: int) -> None:
        """Begin to look for the `wanted`th commit; 0 for none."""
        with self._lock:
            self.pattern, self.wanted, self._seen = pattern, wanted, set()
            self.reached.clear()
            self.released.clear()

    def pass_by(self, frame: bytes) -> None:
        """Return when the request may go on."""
        api_key, _, _ = read_request_start(frame)
        if not self.wanted or api_key != ApiKey.END_TXN:
            return
        transaction, commit = _parse(frame)
        if not commit or not re.match(self.pattern, transaction[0]):
            return
        with self._lock:
            self._seen.add(transaction)
            held = len(self._seen) >= self.wanted
        if held and not self.released.is_set():
            self.reached.set()
            self.released.wait(_LONGEST_S)


class HoldingPipe(Pipe):
    """A connection whose commits may be held back."""

    end_txns: EndTxns

    def _pass_on(self, frame: bytes, *rest: object) -> None:
        self.end_txns.pass_by(frame)
        super()._pass_on(frame, *rest)  # type: ignore[arg-type]


class Gate(Proxy):
    """A proxy that can be shut: connections break, and new ones too."""

    def __init__(self, node: int, target_port: int, end_txns: EndTxns) -> None:
        self._shut = False
        self._end_txns = end_txns
        super().__init__(node, target_port)

    def close_gate(self) -> None:
        """From now on."""
        self._shut = True
        self.cut_all()

    def open_gate(self) -> None:
        """As before."""
        self._shut = False

    def _open(self, client: socket.socket) -> None:
        if self._shut:
            client.close()
            return
        super()._open(client)

    def _pipe(self, client: socket.socket, server: socket.socket) -> Pipe:
        pipe = HoldingPipe(self, client, client, server)
        pipe.end_txns = self._end_txns
        return pipe


def _parse(frame: bytes) -> tuple[tuple[str, int, int], bool]:
    """Transactional id, producer id and epoch, and whether it is a commit."""
    header = read_request_header(frame)
    request, _ = decode(request_type(header.api_key, header.version), frame, header.body_offset)
    transaction = (request.transactional_id, request.producer_id, request.producer_epoch)
    return transaction, request.committed
