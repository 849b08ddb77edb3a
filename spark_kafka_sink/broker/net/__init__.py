"""From sockets to handlers and back: what Kafka's SocketServer and RequestChannel do.

Reading order: server (the loop), socket_server and connection (bytes in and out), frame_buffer
(bytes to frames), dispatcher (a frame to its handler), response_channel (an answer to its
connection). request_handler and loop_sockets are for storages that are a network away; error_log,
repeat_log and message_shapes log what was refused.
"""
