"""Stub that hides hypothesis from measured processes, because users do not have it installed.

phantom-types, on which kio rests, imports it where it is installed: 8 MB, and 0.2 s of CPU.
"""

raise ImportError("left out, as in an installation without the tests' tools")
