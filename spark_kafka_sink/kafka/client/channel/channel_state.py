"""The states of a connection.

    DISCONNECTED -> [LOADING_STORES] -> [RESOLVING] -> CONNECTING -> [TLS_HANDSHAKE]
        -> NEGOTIATING (ApiVersions) -> [SASL_HANDSHAKE -> AUTHENTICATING] -> READY

Before a SASL session expires, the connection authenticates again (KIP-368):

    READY -> DRAINING -> SASL_HANDSHAKE -> AUTHENTICATING -> READY

Source: ``ConnectionState``, ``ChannelState``, ``SaslClientAuthenticator.SaslState``.
"""

from __future__ import annotations

from enum import Enum, auto


class ChannelState(Enum):
    """The state of a connection."""

    DISCONNECTED = auto()
    LOADING_STORES = auto()
    """The truststore and the keystore are reloaded if their files have changed."""
    RESOLVING = auto()
    CONNECTING = auto()
    TLS_HANDSHAKE = auto()
    NEGOTIATING = auto()
    SASL_HANDSHAKE = auto()
    """The mechanism's first message is created; SaslHandshake then negotiates the mechanism."""
    AUTHENTICATING = auto()
    """The mechanism's messages are exchanged in SaslAuthenticate requests."""
    READY = auto()
    DRAINING = auto()
    """No new requests are sent; after the responses to the requests in flight, the connection logs
    in again.
    """


_STATE = ChannelState
NEXT_STATES: dict[ChannelState, frozenset[ChannelState]] = {
    _STATE.DISCONNECTED: frozenset({_STATE.LOADING_STORES, _STATE.RESOLVING, _STATE.CONNECTING}),
    _STATE.LOADING_STORES: frozenset({_STATE.RESOLVING, _STATE.CONNECTING}),
    _STATE.RESOLVING: frozenset({_STATE.CONNECTING}),
    _STATE.CONNECTING: frozenset({_STATE.TLS_HANDSHAKE, _STATE.NEGOTIATING}),
    _STATE.TLS_HANDSHAKE: frozenset({_STATE.NEGOTIATING}),
    _STATE.NEGOTIATING: frozenset({_STATE.SASL_HANDSHAKE, _STATE.READY}),
    _STATE.SASL_HANDSHAKE: frozenset({_STATE.AUTHENTICATING}),
    _STATE.AUTHENTICATING: frozenset({_STATE.READY}),
    _STATE.READY: frozenset({_STATE.DRAINING}),
    _STATE.DRAINING: frozenset({_STATE.SASL_HANDSHAKE}),
}
"""A closed connection is replaced by a new one, which is DISCONNECTED."""

OPENING = frozenset(ChannelState) - {_STATE.DISCONNECTED, _STATE.READY, _STATE.DRAINING}
"""States of a connection attempt, before READY."""
