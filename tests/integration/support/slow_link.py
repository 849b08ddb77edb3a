"""A proxy that adds latency to the connection to a broker."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.client.channel.transport import TcpTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.kafka.client.channel.transport import Connect


async def _pass_on(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float
) -> None:
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while data := await source.read(1 << 16):
            loop.call_later(delay_s, target.write, data)
    loop.call_later(delay_s, target.close)


async def _end(server: asyncio.Server) -> None:
    server.close()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def slow_link(bootstrap_servers: str, delay_s: float) -> Iterator[Connect]:
    """Yield a `connect` function for a client that leads every address through the proxy.

    A round trip takes twice `delay_s` longer.
    """
    host, port = bootstrap_servers.rsplit(":", 1)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(
            _pass_on(reader, up_writer, delay_s), _pass_on(up_reader, writer, delay_s)
        )

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(
        asyncio.start_server(serve, "127.0.0.1", 0), loop
    ).result(10)
    location = server.sockets[0].getsockname()
    try:
        yield lambda address, *buffers: TcpTransport((address[0], location), *buffers)
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
