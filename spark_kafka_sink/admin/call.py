"""One request to one broker, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.client.cluster import Node
    from spark_kafka_sink.protocol.transactions import TransactionVersion
    from spark_kafka_sink.protocol.versions import ApiKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of a call: `response`, or in `failure` the reason why there will be none.

    `written`: the broker may have processed the request. `version` is the API version, and
    `transaction_version` the one that the broker supports; both are valid only with a response.
    """

    node: Node
    version: int
    transaction_version: TransactionVersion
    response: Any | None = None
    failure: str | None = None
    written: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Call:
    """A request to `node`; `body` writes it in the negotiated version.

    `cap` limits that version. `done` is called once, on the thread that calls
    `BlockingClient.turn`.
    """

    node: Node
    api: ApiKey
    body: Callable[[int], list[Buffer]]
    done: Callable[[Answer], None]
    cap: int | None = None


def only(items: Sequence[Any], answer: Answer) -> Any:
    """Return the only item of a list in the response to a request for one item.

    Raises:
        ProtocolError: the list has another length.
    """
    if len(items) != 1:
        raise ProtocolError(
            f"the broker answered about {len(items)} things and was asked about one",
            broker=str(answer.node),
        )
    return items[0]
