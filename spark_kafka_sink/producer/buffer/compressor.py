"""The thread that compresses: closed batches go in, who waits for them can see that it lives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread, current_thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Compressor:
    """One session's; the thread starts with the first work."""

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._executor = ThreadPoolExecutor(
            1, thread_name_prefix="kafkaprod-codec", initializer=self._begin
        )

    @property
    def gone(self) -> bool:
        """The thread has died: what was submitted will never be done."""
        return self._thread is not None and not self._thread.is_alive()

    def submit(self, work: Callable[..., object], *arguments: object) -> None:
        """Do it after all that was submitted before; `work` must catch whatever it raises."""
        self._executor.submit(work, *arguments)

    def shutdown(self) -> None:
        """Finish what is being done, drop the rest."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _begin(self) -> None:
        self._thread = current_thread()
