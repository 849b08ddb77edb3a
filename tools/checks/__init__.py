"""Checks of `make`: `needs` checks the machine, `sizes` checks functions and package docstrings."""
