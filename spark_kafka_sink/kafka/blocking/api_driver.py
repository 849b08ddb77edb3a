"""Send requests for many keys, and retry them until every key has a final result.

A key is a transactional id, a partition or a broker. A request is sent to the broker that is
responsible for the key, and is retried until the result is final. If the API allows several keys
per request, keys are sent together. Source: ``AdminApiDriver``, ``AdminApiHandler``,
``AdminApiLookupStrategy`` (KIP-699), ``PartitionLeaderStrategy``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.blocking.blocking_client import (
    BlockingClient,
    QueuedRequest,
    RequestCompletion,
)
from spark_kafka_sink.kafka.blocking.lookups import (
    MAX_WAIT_S,
    AnyBrokerLookup,
    K,
    LeaderLookup,
    Lookup,
)
from spark_kafka_sink.kafka.client.backoff import full_jitter
from spark_kafka_sink.kafka.client.closed_connections import closed_twice_error, is_closed
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.messages import FieldValues, encode_request
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.kafka.client.cluster_snapshot import Node
    from spark_kafka_sink.kafka.protocol.versions import ApiKey

V = TypeVar("V")

_CONCURRENT_BACKOFF_MS = 10
"""Initial backoff for CONCURRENT_TRANSACTIONS, which is shorter than retry.backoff.ms, as in Java.
"""
MANY_KEYS = 1_000
"""Maximum keys per request for APIs without a limit."""


class KeyAction(Enum):
    """Next step for a key after a response."""

    DONE = "done"
    """The response is final."""
    RETRY = "retry"
    """Retry with the same broker after a backoff."""
    LOOK_UP = "look up"
    """Look up the responsible broker again, and retry after a backoff."""


@dataclass(slots=True, kw_only=True)
class KeyResult(Generic[V]):
    """A broker's response for one key: Kafka's error code, and the value if the code is 0."""

    code: int
    value: V | None = None
    message: str | None = None
    node: Node | None = None
    """The broker, which `ApiDriver` sets."""


class ApiHandler(ABC, Generic[K, V]):
    """An API: creates requests for keys and parses the responses."""

    api: ApiKey
    retriable_codes: frozenset[int] = frozenset()
    """Error codes for which `action` is `KeyAction.RETRY`."""
    lookup_codes: frozenset[int] = frozenset()
    """Error codes for which `action` is `KeyAction.LOOK_UP`, unless they are retriable."""
    max_keys = 1
    """Maximum keys per request."""
    retries_rejected_connections = False
    """True to retry a request without a limit, even if a broker closes the connection each time."""

    def lookup(self, client: BlockingClient) -> Lookup[K]:
        """Return the lookup of the brokers that handle the API; by default, any broker."""
        return AnyBrokerLookup(client)

    def max_version(self, keys: Sequence[K]) -> int | None:  # noqa: ARG002
        """Return the maximum version of a request for these keys, or None for no limit."""
        return None

    def keys_per_request(self, version: int | None) -> int:  # noqa: ARG002
        """Return the maximum keys per request; `version` is None before the negotiation."""
        return self.max_keys

    def body(self, keys: Sequence[K], version: int) -> list[Buffer]:
        """Return the body of a request for these keys."""
        return encode_request(self.api, version, self.values(keys, version))

    @abstractmethod
    def values(self, keys: Sequence[K], version: int) -> FieldValues:
        """Return the values of a request for these keys."""

    def results(self, keys: Sequence[K], completion: RequestCompletion) -> Mapping[K, KeyResult[V]]:
        """Return the result of each key. `completion.response` must not be None."""
        (key,) = keys
        return {key: self.result(key, completion)}

    def result(self, key: K, completion: RequestCompletion) -> KeyResult[V]:
        """Return the result of a request with one key."""
        raise NotImplementedError

    def action(self, code: int) -> KeyAction:
        """Return the action for an error code, which can be a `ClientErrorCode`."""
        if code in self.retriable_codes:
            return KeyAction.RETRY
        return KeyAction.LOOK_UP if code in self.lookup_codes else KeyAction.DONE


class LeaderHandler(ApiHandler[TopicPartition, V]):
    """An API that partition leaders handle."""

    retriable_codes = error_codes.LEADER_BUSY
    lookup_codes = error_codes.INVALID_METADATA | {ErrorCode.unknown_leader_epoch}

    def lookup(self, client: BlockingClient) -> Lookup[TopicPartition]:
        """Return the lookup of partition leaders."""
        return LeaderLookup(client)


def only_item(items: Sequence[Any], completion: RequestCompletion) -> Any:
    """Return the only item of a list in the response to a request for one item.

    Raises:
        ProtocolError: the list does not have exactly one item.
    """
    if len(items) != 1:
        raise ProtocolError(
            f"the broker returned {len(items)} results for a request with one key",
            broker=str(completion.node),
        )
    return items[0]


@dataclass(slots=True)
class _KeyState:
    """The state of a key without a final result."""

    attempts: int = 0
    retry_at: float = 0.0
    """Time of the next attempt in seconds of the client's clock."""
    code: int | None = None
    """The latest error code."""
    closed_by: Node | None = None
    """The broker that has closed the connection instead of responding to the latest attempt."""


class ApiDriver(Generic[K, V]):
    """Sends requests of one API for many keys, until each key has a final result.

    Args:
        client: sends the requests.
        handler: the API.
        keys: the initial keys; `add` adds more keys.
        lookup: the lookup of the responsible brokers; None for the handler's own lookup.
    """

    def __init__(
        self,
        client: BlockingClient,
        handler: ApiHandler[K, V],
        keys: Iterable[K] = (),
        lookup: Lookup[K] | None = None,
    ) -> None:
        self.results: dict[K, KeyResult[V]] = {}
        """Final results, until `take_results` removes them."""
        self._client = client
        self._handler = handler
        self._lookup = lookup or handler.lookup(client)
        self._waiting: dict[K, _KeyState] = {}
        self._in_progress: dict[K, _KeyState] = {}
        """Keys with a queued request or a request in flight."""
        self.add(keys)

    @property
    def is_done(self) -> bool:
        """True if every key has its final result."""
        return not self._waiting and not self._in_progress

    @property
    def unfinished_codes(self) -> dict[K, int | None]:
        """The latest error codes of the keys that have no final result."""
        return {key: self.unfinished_code(key) for key in (*self._waiting, *self._in_progress)}

    @property
    def latest_code(self) -> int | None:
        """The latest error code of any key without a final result, or None."""
        return next((code for code in self.unfinished_codes.values() if code is not None), None)

    def unfinished_code(self, key: K) -> int | None:
        """Return the latest error code of a key without a final result, or of its lookup."""
        state = self._waiting.get(key) or self._in_progress.get(key)
        code = None if state is None else state.code
        return self._lookup.code(key) if code is None else code

    def add(self, keys: Iterable[K]) -> None:
        """Add keys; keys that are already in progress are skipped."""
        for key in keys:
            if key not in self._waiting and key not in self._in_progress:
                self._waiting[key] = _KeyState()

    def take_results(self) -> dict[K, KeyResult[V]]:
        """Remove and return the results that became final since the last call."""
        taken, self.results = self.results, {}
        return taken

    def run(self, deadline: float | None) -> bool:
        """Send requests until every key has its final result, or the deadline has passed.

        Args:
            deadline: time limit in seconds of the client's clock, or None.

        Returns:
            True if every key has its final result.

        Raises:
            AuthenticationError: the brokers do not accept this client.
            ProtocolError: a broker does not support the API, or closes the connection on it.
        """
        client = self._client
        try:
            client.run_once(0.0)  # Detect connections that have been closed since the last use.
            while not self.is_done:
                now = client.now()
                if deadline is not None and now >= deadline:
                    return False
                self.step(now)
                if not self.is_done:
                    longest = MAX_WAIT_S if deadline is None else deadline - now
                    client.run_once(min(self.seconds_until_due(now), longest))
            return True
        finally:
            if not self.is_done:
                client.abandon()

    def complete(self, deadline: float | None, action: str) -> dict[K, KeyResult[V]]:
        """Return the final result of every key.

        Args:
            deadline: see `run`.
            action: the action, such as "describing transactions"; shown in errors.

        Raises:
            AuthenticationError, ProtocolError: see `run`.
            BrokerUnavailableError: the deadline has passed.
        """
        if not self.run(deadline):
            raise self._client.unavailable_error(action, self.latest_code)
        return self.results

    def step(self, now: float) -> None:
        """Continue the lookup, and submit requests for all keys whose backoff has passed."""
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
            self._lookup.look_up(unknown)
        for node, keys in by_node.items():
            self._submit_requests(node, keys)

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until `step` must be called again, unless a response arrives first."""
        if not self._waiting:
            return MAX_WAIT_S
        retries = [state.retry_at - now for state in self._waiting.values()]
        later = min((wait for wait in retries if wait > 0), default=MAX_WAIT_S)
        return min(later, self._lookup.seconds_until_due(now), MAX_WAIT_S)

    def _submit_requests(self, node: Node, keys: list[K]) -> None:
        handler = self._handler
        size = handler.keys_per_request(
            self._client.version(node, handler.api, handler.max_version(keys))
        )
        for start in range(0, len(keys), size):
            batch_of_keys = keys[start : start + size]
            for key in batch_of_keys:
                self._in_progress[key] = self._waiting.pop(key)
            self._client.submit(self._queued_request(node, batch_of_keys))

    def _queued_request(self, node: Node, keys: Sequence[K]) -> QueuedRequest:
        handler = self._handler
        return QueuedRequest(
            node=node,
            api=handler.api,
            body=lambda version: handler.body(keys, version),
            done=lambda completion: self._handle_completion(keys, completion),
            max_version=handler.max_version(keys),
        )

    def _handle_completion(self, keys: Sequence[K], completion: RequestCompletion) -> None:
        default: KeyResult[V] = KeyResult(code=ErrorCode.unknown_server_error)
        results: Mapping[K, KeyResult[V]] = {}
        if completion.response is None:
            code = (
                ClientErrorCode.disconnected if completion.is_written else ClientErrorCode.not_sent
            )
            default = KeyResult(code=code, message=completion.failure)
        else:
            results = self._handler.results(keys, completion)
        self._check_closed(keys, completion)
        for key in keys:
            result = results.get(key, default)
            result.node = completion.node
            self._finish_or_retry(key, result)

    def _check_closed(self, keys: Sequence[K], completion: RequestCompletion) -> None:
        """Raise an error if a broker has closed the connection on the same request twice.

        A broker that restarts refuses a connection in between, or does not negotiate versions.
        """
        if not completion.is_oldest:  # The broker may have closed it on an older request.
            return
        handler = self._handler
        was_closed = is_closed(completion.loss, is_written=completion.is_written)
        states = [self._in_progress[key] for key in keys]
        repeated = any(state.closed_by == completion.node for state in states)
        if was_closed and repeated and not handler.retries_rejected_connections:
            raise closed_twice_error(
                handler.api, completion.node, completion.loss, completion.failure or ""
            )
        for state in states:
            state.closed_by = completion.node if was_closed else None

    def _finish_or_retry(self, key: K, result: KeyResult[V]) -> None:
        state = self._in_progress.pop(key)
        action = KeyAction.DONE if not result.code else self._handler.action(result.code)
        if action is KeyAction.DONE:
            self.results[key] = result
            return
        if action is KeyAction.LOOK_UP:
            self._lookup.invalidate(key)
        config = self._client.config
        concurrent = result.code == ErrorCode.concurrent_transactions
        base = _CONCURRENT_BACKOFF_MS if concurrent else config.retry_backoff_ms
        delay = full_jitter(state.attempts, base, config.retry_backoff_max_ms, self._client.random)
        state.attempts += 1
        state.retry_at, state.code = self._client.now() + delay, result.code
        self._waiting[key] = state


def request_one(
    client: BlockingClient, handler: ApiHandler[K, V], key: K, deadline: float | None, action: str
) -> KeyResult[V]:
    """Return the final result of a single key; see `ApiDriver.complete`."""
    return ApiDriver(client, handler, (key,)).complete(deadline, action)[key]
