"""Run third-party clients against the embedded broker: `python -m tools.compat.client_matrix`.

The results are written to a table in docs/compatibility.md, unless `--dry` is given. If there are
arguments, only clients whose names contain an argument are run, and the page is not updated. The
exit status is 1 if a check fails.
"""

import sys
import time
import traceback

from spark_kafka_sink import EmbeddedBroker
from tools.compat.clients.checks import Check, ClientRow, Task
from tools.compat.clients.command_line_clients import CONSOLE, KCAT, PERFORMANCE
from tools.compat.clients.python_clients import AIOKAFKA, CONFLUENT, KAFKA_PYTHON
from tools.compat.clients.spark_client import SPARK
from tools.docs.pages import table, write_block

GOOD, BAD, NONE = "works", "fails", "-"


def _checked_cell(client: ClientRow, task: Task, check: Check) -> str:
    """Run a check on a new three-node cluster with replication factor 3; return its table cell."""
    started = time.monotonic()
    with EmbeddedBroker(nodes=3, replication_factor=3, auto_create_topics=True) as kafka:
        try:
            check(kafka.bootstrap_servers)
        except Exception:  # noqa: BLE001 - whatever it is, it does not work
            traceback.print_exc()
            result = BAD
        else:
            result = GOOD
    took = time.monotonic() - started
    print(f"{client.name}, {task}: {result} ({took:.1f} s)", flush=True)
    return result


def row(client: ClientRow) -> list[str]:
    """Return a client's row of the table, as a list of cells."""
    cells = [
        _checked_cell(client, t, client.checks[t]) if t in client.checks else NONE for t in Task
    ]
    return [client.name, client.read_version(), *cells]


def main() -> None:
    """Run the checks, print the table, and update the page."""
    words = [word.lower() for word in sys.argv[1:] if not word.startswith("-")]
    clients = (KCAT, CONFLUENT, KAFKA_PYTHON, AIOKAFKA, CONSOLE, PERFORMANCE, SPARK)
    chosen = [c for c in clients if not words or any(word in c.name.lower() for word in words)]
    matrix = table(["client", "version", *Task], [row(client) for client in chosen])
    print(matrix)
    if not words and "--dry" not in sys.argv:
        write_block("matrix", matrix)
    sys.exit(1 if BAD in matrix else 0)


if __name__ == "__main__":
    main()
