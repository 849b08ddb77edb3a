"""A complete producer without threads or network; tests control the clock and the fake brokers."""
