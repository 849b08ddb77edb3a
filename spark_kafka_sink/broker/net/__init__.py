"""The network layer: sockets, request frames and dispatch (Kafka's SocketServer).

One thread runs `event_loop` and serves all sockets. Requests that might wait for a remote storage
are handled on a second thread (`RequestThread` in `request_thread`).

In reading order:

- `event_loop`: the event loop, and functions for callers on other threads
- `socket_server`: listeners and connections of all nodes, selector, timers
- `listeners`: the listening sockets of all nodes
- `frame_buffer`: assembles frames
- `client_connection`: a client connection
- `error_log`: the log of failed requests
- `tls_socket`: a non-blocking TLS socket
- `request_thread`: the optional second thread
- `dispatcher`: SASL authentication and decoding of requests
- `plain_produce`: reads Produce requests for one partition, and writes their responses
- `response_channel`: passes a request to its handler, and sends the response
"""
