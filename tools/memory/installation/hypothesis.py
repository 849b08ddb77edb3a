"""Stands for hypothesis in a measured worker's path, as users have none.

phantom-types, on which kio rests, imports it where it is installed: 8 MB.
"""

raise ImportError("left out, as in an installation without the tests' tools")
