"""The embedded broker: what one core of it takes, and requests of one record."""
