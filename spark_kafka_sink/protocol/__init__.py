"""Kafka's wire protocol: messages, headers, versions and frames, without any I/O.

To read in this order: frame.py (bytes to frames), messages.py (headers), codec.py (messages to
bytes and back) with schema.py and primitives.py, versions.py (which are spoken), error_codes.py;
message_builder.py and gather.py write messages; the room produce is the one API that is written by
hand; features.py, transaction_version.py, transaction_state.py, open_transaction.py and
transaction_requests.py say how a transaction is carried out.
"""
