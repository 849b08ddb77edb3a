"""What these tests share: rows, sessions, servers that are no broker, slow ones."""
