"""Stub that hides hypothesis from measured processes, because users do not have it installed.

phantom-types, a dependency of kio, imports it if installed, at a cost of 8 MB and 0.2 s of CPU.
"""

raise ImportError("left out, as in an installation without the tests' tools")
