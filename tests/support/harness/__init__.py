"""A whole producer without threads or sockets: the clock and the brokers are the test's."""
