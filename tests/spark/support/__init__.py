"""What the tests with Spark share: the session, its console, the sink, programs of their own."""
