"""What planning leaves for the abort() of a stream's micro-batch: another writer aborts it.

A task's message has all of this; for a micro-batch in which no task finishes there is no message.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.spark.reports.report_folder import report_folder

if TYPE_CHECKING:
    from typing import Any

    from spark_kafka_sink.protocol.open_transaction import OpenTransaction
    from spark_kafka_sink.spark.reports.stream_reports import StreamIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The last planning of a micro-batch."""

    at: str = ""
    """When it was, in ISO 8601; empty if that is not known."""
    nonce: str | None = None
    """That of its transactions; None without exactly-once, or if it is not known."""
    shared: OpenTransaction | None = None
    """The transaction of all tasks, with atomicBatch=true."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """`path` is in the folder of the application's reports; empty where nothing is kept."""

    path: str = ""

    @classmethod
    def of(cls, stream: StreamIdentity, prefix: str = "") -> Self:
        """Return the stream's own file, if its options or its prefix tell it from others."""
        folder = report_folder() if stream.is_known or prefix else None
        name = hashlib.sha256(f"{stream.digest}\n{prefix}".encode()).hexdigest()[:16]
        return cls() if folder is None else cls(str(Path(folder) / f"{name}.planned"))

    def keep(self, planned: Planned) -> None:
        """Replace what was planned before; never raises."""
        if not self.path:
            return
        file, draft = Path(self.path), Path(f"{self.path}-new")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(asdict(planned)))
            draft.replace(file)
        except OSError:
            with suppress(OSError):  # an older plan would be taken for this one
                file.unlink(missing_ok=True)

    def read(self) -> Planned:
        """Return the last plan; empty if it is not known."""
        if self.path:
            with suppress(OSError, ValueError, TypeError, KeyError):
                return _planned(json.loads(Path(self.path).read_text()))
        return Planned()


def _planned(kept: dict[str, Any]) -> Planned:
    at, shared = kept["at"], kept["shared"]
    return Planned(
        at=at and datetime.fromisoformat(at).isoformat(timespec="milliseconds"),
        nonce=kept["nonce"],
        shared=None if shared is None else _opened(shared),
    )


def _opened(kept: dict[str, Any]) -> OpenTransaction:
    from spark_kafka_sink.protocol.open_transaction import OpenTransaction  # seldom needed
    from spark_kafka_sink.protocol.transaction_version import TransactionVersion

    return OpenTransaction(**kept | {"version": TransactionVersion(kept["version"])})
