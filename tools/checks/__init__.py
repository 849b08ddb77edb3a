"""Checks for `make`: of the machine, functions and docstrings, names, and test files."""
