"""Other people's clients, unchanged, against the embedded broker; see `tests.tools.matrix`."""
