"""Transactional writes, read by other read_committed clients."""
