"""A Spark in a process of its own, which stays warm between orders."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from threading import Timer
from typing import IO, TYPE_CHECKING, Any, Self

from tools.benchmarks.processes import ContestantError
from tools.benchmarks.sample import Sample
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from types import TracebackType

_TIMEOUT_S = 300
"""For an answer; no write takes nearly as long."""
_CHILD = "tools.benchmarks.spark.child"


@dataclass(frozen=True, slots=True)
class _Child:
    process: subprocess.Popen[str]
    errors: IO[bytes]

    @classmethod
    def start(cls, python: str, module: str) -> _Child:
        errors = tempfile.TemporaryFile()  # noqa: SIM115  # Closed by `stop`.
        process = subprocess.Popen(
            [python, "-m", module],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        return cls(process, errors)

    def ask(self, line: str) -> str:
        """The line that answers a line; none where the process has failed or hangs."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        timer = Timer(_TIMEOUT_S, self.process.kill)
        timer.start()
        try:
            stdin.write(line + "\n")
            stdin.flush()
            return stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            timer.cancel()

    def log(self) -> str:
        """The end of what it wrote on its standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-4000:]

    def stop(self) -> None:
        """End it, by the end of its input or else by force."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


class WarmSpark:
    """A process that serves orders, as a context manager; after a failure the next starts anew."""

    def __init__(self, module: str = _CHILD, python: str = sys.executable) -> None:
        self._module, self._python = module, python
        self._child: _Child | None = _Child.start(python, module)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def order(self, order: dict[str, Any]) -> Sample:
        """Let it write; raises ContestantError with the end of its log when it fails."""
        return Sample(**self.ask(order))

    def ask(self, order: dict[str, Any]) -> Any:
        """What it answers, from JSON; raises ContestantError as `order` does."""
        if self._child is None:
            self._child = _Child.start(self._python, self._module)
        answer = self._child.ask(json.dumps(order))
        if not answer:
            log = self._child.log()
            self._stop()
            raise ContestantError(f"Spark with {order.get('writer', 'kafkaprod')} failed:\n{log}")
        return json.loads(answer)

    def _stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None
