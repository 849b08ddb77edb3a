"""Asking about many keys until every one of them is answered for good.

Each key (a transactional id, a partition, a broker) goes to the broker that is responsible for it,
with others in one request where the API allows that, and again when the answer is not final.
Source: ``AdminApiDriver``, ``AdminApiHandler``, ``AdminApiLookupStrategy`` (KIP-699).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from spark_kafka_sink.admin.call import Call
from spark_kafka_sink.client.backoff import full_jitter
from spark_kafka_sink.protocol.error_codes import ClientErrorCode, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.call import Answer
    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.protocol.versions import ApiKey

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

CONCURRENT_BACKOFF_MS = 10
"""The first wait for a transaction that is ending: shorter than retry.backoff.ms, as in Java."""
LONGEST_WAIT = 1.0
"""Seconds between two looks at what is due."""


class Action(Enum):
    """What to do with a key after an answer."""

    DONE = "done"
    """Keep the answer."""
    RETRY = "retry"
    """Ask the same broker again after a back-off."""
    LOOK_UP = "look up"
    """Find out which broker is responsible, then ask again after a back-off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyResult(Generic[V]):
    """A broker's answer about one key: Kafka's error code, and what it said where that is 0."""

    code: int
    value: V | None = None
    message: str | None = None
    node: Node | None = None


class ApiHandler(ABC, Generic[K, V]):
    """One API: how keys are asked about, and what the answers mean."""

    api: ApiKey

    def cap(self, keys: Sequence[K]) -> int | None:  # noqa: ARG002
        """The highest version for a request about these keys; None for any."""
        return None

    def keys_per_request(self, version: int | None) -> int:  # noqa: ARG002
        """How many keys a request may have; `version` None where the broker is not known yet."""
        return 1

    @abstractmethod
    def body(self, keys: Sequence[K], version: int) -> list[Buffer]:
        """A request about these keys."""

    @abstractmethod
    def results(self, keys: Sequence[K], answer: Answer) -> Mapping[K, KeyResult[V]]:
        """What a response says of each of them; `answer.response` is there."""

    @abstractmethod
    def action(self, code: int) -> Action:
        """What follows from an error code, also from one of `ClientErrorCode`."""


class Lookup(Protocol[K]):
    """Knows, or finds out, which broker is responsible for a key."""

    def node(self, key: K) -> Node | None:
        """The broker, None where that is not known now."""

    def ask(self, keys: Sequence[K]) -> None:
        """Begin to find out about keys that `node` does not know."""

    def forget(self, key: K) -> None:
        """What is known of a key is wrong."""

    def step(self, now: float) -> Mapping[K, int]:
        """Go on finding out; error codes of keys about which nothing will ever be found."""

    def wait(self, now: float) -> float:
        """Seconds until `step` has something to do."""


@dataclass(slots=True)
class _KeyState:
    """`retry_at` in seconds of the client's clock; `code` is that of the latest answer."""

    attempts: int = 0
    retry_at: float = 0.0
    code: int | None = None


class ApiDriver(Generic[K, V]):
    """Asks one handler's API about many keys.

    Args:
        client: sends, and tells the time.
        handler: the API.
        lookup: which broker is asked.
        keys: each once; more can be added.
    """

    def __init__(
        self,
        client: BlockingClient,
        handler: ApiHandler[K, V],
        lookup: Lookup[K],
        keys: Iterable[K] = (),
    ) -> None:
        self.results: dict[K, KeyResult[V]] = {}
        """Final answers, until they are taken."""
        self._client = client
        self._handler = handler
        self._lookup = lookup
        self._waiting: dict[K, _KeyState] = {}
        self._asked: dict[K, _KeyState] = {}
        """Keys that a request in flight is about."""
        self.add(keys)

    @property
    def is_done(self) -> bool:
        """Whether every key has its final answer."""
        return not self._waiting and not self._asked

    @property
    def unsettled(self) -> dict[K, int | None]:
        """Keys without a final answer, and the latest code that there was for each."""
        return {key: state.code for key, state in (*self._waiting.items(), *self._asked.items())}

    @property
    def latest_code(self) -> int | None:
        """The latest code of a key that has no final answer; None where there was no answer."""
        return next((code for code in self.unsettled.values() if code is not None), None)

    def add(self, keys: Iterable[K]) -> None:
        """Ask about these keys too; those that are being asked about already are left alone."""
        for key in keys:
            if key not in self._waiting and key not in self._asked:
                self._waiting[key] = _KeyState()

    def take_results(self) -> dict[K, KeyResult[V]]:
        """The final answers since the last call."""
        taken, self.results = self.results, {}
        return taken

    def run(self, deadline: float | None) -> bool:
        """Ask until all is answered, or the deadline has passed; whether all is answered.

        Args:
            deadline: in seconds of the client's clock; None: as long as it takes.

        Raises:
            AuthenticationError: the brokers do not accept this client.
            ProtocolError: a broker does not serve the API.
        """
        client = self._client
        try:
            client.turn(0.0)  # connections may have been closed while nobody looked
            while not self.is_done:
                now = client.now()
                if deadline is not None and now >= deadline:
                    return False
                self.step(now)
                if not self.is_done:
                    longest = LONGEST_WAIT if deadline is None else deadline - now
                    client.turn(min(self.wait(now), longest))
            return True
        finally:
            if not self.is_done:
                client.abandon()

    def step(self, now: float) -> None:
        """Send what is due."""
        for key, code in self._lookup.step(now).items():
            if self._waiting.pop(key, None) is not None:
                self.results[key] = KeyResult(code=code)
        by_node: dict[Node, list[K]] = {}
        unknown: list[K] = []
        for key, state in self._waiting.items():
            if state.retry_at > now:
                continue
            node = self._lookup.node(key)
            if node is None:
                unknown.append(key)
            else:
                by_node.setdefault(node, []).append(key)
        if unknown:
            self._lookup.ask(unknown)
        for node, keys in by_node.items():
            self._send(node, keys)

    def wait(self, now: float) -> float:
        """Seconds until `step` has something to do, unless an answer comes before."""
        if not self._waiting:
            return LONGEST_WAIT
        retries = [state.retry_at - now for state in self._waiting.values()]
        later = min((wait for wait in retries if wait > 0), default=LONGEST_WAIT)
        return min(later, self._lookup.wait(now), LONGEST_WAIT)

    def _send(self, node: Node, keys: list[K]) -> None:
        handler = self._handler
        size = handler.keys_per_request(self._client.version(node, handler.api, handler.cap(keys)))
        for start in range(0, len(keys), size):
            some = keys[start : start + size]
            for key in some:
                self._asked[key] = self._waiting.pop(key)
            self._client.submit(self._call(node, some))

    def _call(self, node: Node, keys: Sequence[K]) -> Call:
        handler = self._handler
        return Call(
            node=node,
            api=handler.api,
            body=lambda version: handler.body(keys, version),
            done=lambda answer: self._answered(keys, answer),
            cap=handler.cap(keys),
        )

    def _answered(self, keys: Sequence[K], answer: Answer) -> None:
        if answer.response is None:
            code = ClientErrorCode.disconnected if answer.written else ClientErrorCode.not_sent
            results: Mapping[K, KeyResult[V]] = {
                key: KeyResult(code=code, message=answer.failure) for key in keys
            }
        else:
            results = self._handler.results(keys, answer)
        for key in keys:
            missing: KeyResult[V] = KeyResult(code=ErrorCode.unknown_server_error)
            self._decide(key, results.get(key, missing))

    def _decide(self, key: K, result: KeyResult[V]) -> None:
        state = self._asked.pop(key)
        action = Action.DONE if not result.code else self._handler.action(result.code)
        if action is Action.DONE:
            self.results[key] = result
            return
        if action is Action.LOOK_UP:
            self._lookup.forget(key)
        config = self._client.config
        concurrent = result.code == ErrorCode.concurrent_transactions
        base = CONCURRENT_BACKOFF_MS if concurrent else config.retry_backoff_ms
        delay = full_jitter(state.attempts, base, config.retry_backoff_max_ms, self._client.random)
        state.attempts += 1
        state.retry_at, state.code = self._client.now() + delay, result.code
        self._waiting[key] = state
