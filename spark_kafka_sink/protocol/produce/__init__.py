"""Produce, the API that carries the records, written and read by hand.

request_writer.py and response_reader.py are the client's, request_reader.py and response_writer.py
the broker's. All but the first are for messages that are plain; the rest goes through `codec`.
"""
