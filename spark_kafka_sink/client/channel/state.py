"""Where a connection stands, and what may follow.

    DISCONNECTED -> [LOADING_STORES] -> [RESOLVING] -> CONNECTING -> [TLS_HANDSHAKE]
        -> NEGOTIATING (ApiVersions) -> [SASL_HANDSHAKE -> AUTHENTICATING] -> READY -> DISCONNECTED

A session whose end is near is authenticated again on the connection (KIP-368):
READY -> DRAINING -> SASL_HANDSHAKE -> AUTHENTICATING -> READY. Each may end in DISCONNECTED.
Source: ``ConnectionState``, ``ChannelState``, ``SaslClientAuthenticator.SaslState``.
"""

from __future__ import annotations

from enum import Enum, auto


class State(Enum):
    """Where a connection stands."""

    DISCONNECTED = auto()
    LOADING_STORES = auto()
    """Truststore and keystore are read, where their files have changed."""
    RESOLVING = auto()
    CONNECTING = auto()
    TLS_HANDSHAKE = auto()
    NEGOTIATING = auto()
    SASL_HANDSHAKE = auto()
    """The first message is made, then the mechanism is agreed on."""
    AUTHENTICATING = auto()
    """The mechanism's messages are exchanged, in SaslAuthenticate."""
    READY = auto()
    DRAINING = auto()
    """Nothing new is sent; once what is in flight is answered, the authentication begins anew."""


NEXT_STATES: dict[State, frozenset[State]] = {
    State.DISCONNECTED: frozenset({State.LOADING_STORES, State.RESOLVING, State.CONNECTING}),
    State.LOADING_STORES: frozenset({State.RESOLVING, State.CONNECTING, State.DISCONNECTED}),
    State.RESOLVING: frozenset({State.CONNECTING, State.DISCONNECTED}),
    State.CONNECTING: frozenset({State.TLS_HANDSHAKE, State.NEGOTIATING, State.DISCONNECTED}),
    State.TLS_HANDSHAKE: frozenset({State.NEGOTIATING, State.DISCONNECTED}),
    State.NEGOTIATING: frozenset({State.SASL_HANDSHAKE, State.READY, State.DISCONNECTED}),
    State.SASL_HANDSHAKE: frozenset({State.AUTHENTICATING, State.DISCONNECTED}),
    State.AUTHENTICATING: frozenset({State.READY, State.DISCONNECTED}),
    State.READY: frozenset({State.DRAINING, State.DISCONNECTED}),
    State.DRAINING: frozenset({State.SASL_HANDSHAKE, State.DISCONNECTED}),
}

OPENING = frozenset(
    {
        State.LOADING_STORES,
        State.RESOLVING,
        State.CONNECTING,
        State.TLS_HANDSHAKE,
        State.NEGOTIATING,
        State.SASL_HANDSHAKE,
        State.AUTHENTICATING,
    }
)
"""On the way to READY."""
