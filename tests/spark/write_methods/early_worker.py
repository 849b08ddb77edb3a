"""Run a Python worker that connects to Spark before importing PySpark: early_worker.py -m MODULE.

Spark Connect has a fixed timeout of 10 seconds for a foreachBatch worker to connect, and 10 seconds
to authenticate. The worker first imports PySpark, pandas and gRPC, which can take longer on a busy
machine.
"""

from __future__ import annotations

import os
import runpy
import shlex
import socket
import struct
import sys
from pathlib import Path

_MODULE = "pyspark.sql.connect.streaming.worker.foreach_batch_worker"
_SCRIPT = """#!/bin/sh
if [ "$2" = {module} ]; then exec {python} -P {worker} "$@"; fi
exec {python} "$@"
"""


def write_python(path: Path) -> str:
    """Write an executable to `path` that starts foreachBatch workers with this module."""
    words = {"module": _MODULE, "python": sys.executable, "worker": str(Path(__file__).resolve())}
    path.write_text(_SCRIPT.format(**{name: shlex.quote(word) for name, word in words.items()}))
    path.chmod(0o755)
    return str(path)


def main() -> None:
    """Connect and authenticate, and make PySpark's function return this connection."""
    secret = os.environ["PYTHON_WORKER_FACTORY_SECRET"].encode()
    early = socket.create_connection(("127.0.0.1", int(os.environ["PYTHON_WORKER_FACTORY_PORT"])))
    file = early.makefile("rwb")
    file.write(struct.pack("!i", len(secret)) + secret)
    file.flush()
    assert file.read(6) == b"\0\0\0\2ok"

    import pyspark.java_gateway
    import pyspark.util

    for module in (pyspark.util, pyspark.java_gateway):  # since 4.0, and in 3.5
        vars(module)["local_connect_and_auth"] = lambda *_: (file, early)
    runpy.run_module(sys.argv[2], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
