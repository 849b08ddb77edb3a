"""Compress closed batches in a separate thread."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Thread, current_thread
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.kafka.client.client import thread_start_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch


class CompressionResult(NamedTuple):
    """A batch's compressed records section and the compression time in seconds, or the error."""

    batch: ProducerBatch
    payload: bytes = b""
    seconds: float = 0.0
    error: BaseException | None = None


class Compressor:
    """Compresses the batches of one session; its thread starts with the first batch.

    It needs no lock, because each deque has one thread that appends and one thread that removes.

    Args:
        config: the codec and its level.
        clock: measures the compression time.
        on_result: called in the codec thread after each result.
        executor: runs the compression, one batch at a time; None for a dedicated thread.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        on_result: Callable[[], None],
        executor: Executor | None = None,
    ) -> None:
        self.codec = config.compression_type
        self._level = config.compression_level
        self._clock = clock
        self._on_result = on_result
        self._executor = executor or ThreadPoolExecutor(
            1, thread_name_prefix="kafkaprod-codec", initializer=self._record_thread
        )
        self._pending: deque[ProducerBatch] = deque()
        """Batches to compress. The writer and the sender append under the accumulator's lock. The
        codec thread removes batches; if it has died, the sender removes them. Each removed batch
        yields one result.
        """
        self._results: deque[CompressionResult] = deque()
        """Results that the codec thread appends and the sender removes."""
        self._thread: Thread | None = None
        """The codec thread; it sets this attribute when it starts."""

    def submit(self, batch: ProducerBatch) -> None:
        """Queue a batch for compression; the caller must hold the accumulator's lock.

        Raises:
            DeliveryError: the codec thread cannot start.
        """
        self._pending.append(batch)
        try:
            self._executor.submit(self._compress, batch)
        except RuntimeError as error:
            if self._thread is not None:
                raise  # The executor has ended.
            raise thread_start_error("codec", error) from error

    def take_results(self) -> list[CompressionResult]:
        """Return the results since the last call; sender thread only.

        If the codec thread has died, return an error for each remaining batch.
        """
        results: list[CompressionResult] = []
        while self._results:
            results.append(self._results.popleft())
        if self._thread is not None and not self._thread.is_alive():
            error = RuntimeError("the codec thread has died")
            while self._pending:
                results.append(CompressionResult(self._pending.popleft(), error=error))
        return results

    def close(self) -> None:
        """Finish the batch that is being compressed and drop the others; writer thread only."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    # Only the codec thread calls the methods below.

    def _record_thread(self) -> None:
        self._thread = current_thread()

    def _compress(self, batch: ProducerBatch) -> None:
        started = self._clock.monotonic()
        try:
            payload = batch.compress_records(self.codec, self._level)
            result = CompressionResult(batch, payload, self._clock.monotonic() - started)
        except BaseException as error:  # noqa: BLE001 - passed on to the sender
            result = CompressionResult(batch, error=error)
        self._results.append(result)
        self._pending.popleft()
        self._on_result()
