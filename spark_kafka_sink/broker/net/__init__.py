"""The network layer: sockets, request frames and dispatch (Kafka's SocketServer).

One thread runs the event loop of `server` and serves all sockets. Requests that might wait for a
remote storage are handled on a second thread (`RequestHandler` in `dispatcher`).

In reading order:

- `server`: the event loop, and functions for callers on other threads
- `socket_server`: listeners and connections of all nodes, selector, timers
- `client_connection`: a client connection with frame assembly
- `error_log`: the log of failed requests
- `tls_socket`: a non-blocking TLS socket
- `dispatcher`: SASL authentication and decoding of requests, delivery of responses, and
  `RequestHandler`, the optional second thread
"""
