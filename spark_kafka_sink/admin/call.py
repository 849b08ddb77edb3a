"""One request to one broker, and what became of it."""

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
    """What became of a call: `response`, or why there is none and never will be.

    `written`: the broker may have acted on the request. `version` is that of the API, and
    `transaction_version` what the broker speaks; both mean something with a response alone.
    """

    node: Node
    version: int
    transaction_version: TransactionVersion
    response: Any | None = None
    failure: str | None = None
    written: bool = True


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Call:
    """A request that has to go to `node`; `body` writes it in the version that is agreed on.

    `cap` limits that version. `done` is called once, in the thread that turns the client.
    """

    node: Node
    api: ApiKey
    body: Callable[[int], list[Buffer]]
    done: Callable[[Answer], None]
    cap: int | None = None


def only(items: Sequence[Any], answer: Answer) -> Any:
    """The one item of a list in an answer to a request about one thing.

    Raises:
        ProtocolError: there are more or fewer.
    """
    if len(items) != 1:
        raise ProtocolError(
            f"the broker answered about {len(items)} things and was asked about one",
            broker=str(answer.node),
        )
    return items[0]
