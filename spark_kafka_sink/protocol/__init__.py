"""Kafka's wire protocol: messages, headers, versions and frames, without any I/O.

To read in this order: frame.py (bytes to frames), messages.py (headers), codec.py (messages to
bytes and back) with schema.py and primitives.py, versions.py (which are spoken), error_codes.py;
features.py, transaction_version.py and open_transaction.py say how a transaction is carried out;
message_builder.py and gather.py write responses, produce.py and produce_response.py the two
messages that are written by hand.
"""
