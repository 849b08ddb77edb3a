"""Produce, the API that carries the records, written and read by hand.

request_writer.py is the client's; request_reader.py and response_writer.py are the broker's, for
requests that are plain. All else about Produce goes through `codec`.
"""
