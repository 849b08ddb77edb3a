"""Foreign clients that read and write."""
