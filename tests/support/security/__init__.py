"""A real Kafka that asks who comes: its certificates, issuer of tokens, KDC, listeners, doors.

Read `listeners` first: what the broker offers; then `doors`: the options that enter there.
"""
