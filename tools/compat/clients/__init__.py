"""Foreign clients, unchanged, against the embedded broker; see `tools.compat.client_matrix`."""
