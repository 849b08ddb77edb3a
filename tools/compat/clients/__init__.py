"""Unmodified third-party clients against the embedded broker; see `tools.compat.client_matrix`."""
