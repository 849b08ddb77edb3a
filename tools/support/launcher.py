"""Run a command that the kernel kills when its parent exits: launcher.py PID COMMAND.

A killed test process cannot clean up its child processes. Only Linux supports the parent-death
signal. On other systems, the command runs without it, and only the context managers clean up.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the parent-death signal, check that the parent is running, and execute the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
    os.execv(command[0], command)


main()
