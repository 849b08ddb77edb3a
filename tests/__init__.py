"""Everything that proves the package: see each folder's own docstring."""
