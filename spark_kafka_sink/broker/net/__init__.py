"""The network layer: from sockets to request handlers and back (Kafka's SocketServer).

All sockets belong to one thread, which runs the event loop of `server`. Requests that may wait for
a remote storage are handled on a second thread (`RequestHandler` in `dispatcher`).

In reading order:

- `server`: the event loop; `LoopSockets` for callers on other threads
- `socket_server`: listeners and connections of all nodes, selector, timers
- `connection`: one client connection: frame assembly, response channel, error log
- `tls_socket`: a non-blocking TLS socket
- `dispatcher`: SASL authentication, decoding and dispatch of requests, and `RequestHandler`, the
  thread for requests
"""
