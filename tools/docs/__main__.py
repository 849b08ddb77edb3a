"""Writes every generated block: `python -m tools.docs`."""

from __future__ import annotations

from tools.docs.generated import GENERATED
from tools.docs.pages import write_block


def main() -> None:
    """Write the blocks."""
    for name, render in GENERATED.items():
        write_block(name, render())


if __name__ == "__main__":
    main()
