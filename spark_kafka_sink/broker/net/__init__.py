"""The network layer: from sockets to request handlers and back (Kafka's SocketServer).

All sockets belong to one thread, the one that runs the event loop of `server`. Requests that may
wait for a remote storage are handled on a second thread (`RequestHandler` in `dispatcher`).

In reading order:

- `server`: the event loop; `LoopSockets` for callers on other threads
- `socket_server`: listeners and connections of all nodes, selector, timers
- `connection`: one client connection: frame assembly, response channel, error log
- `tls_socket`: a non-blocking TLS socket
- `dispatcher`: decoding of requests and their dispatch, SASL authentication before it, and
  `RequestHandler`, the thread for requests
"""
