"""Stub that hides hypothesis from measured processes, because users do not have it installed.

phantom-types, a dependency of kio, imports hypothesis if it is installed. This costs 8 MB and 0.2 s
of CPU.
"""

raise ImportError("hidden, as in an installation without the test tools")
