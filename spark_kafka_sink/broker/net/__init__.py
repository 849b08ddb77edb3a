"""Sockets, frames and requests: from the event loop to the handler and back."""
