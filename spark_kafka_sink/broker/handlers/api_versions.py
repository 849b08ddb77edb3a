"""ApiVersions, and SaslHandshake and SaslAuthenticate outside of authentication.

ApiVersions 0-4 (KIP-35, KIP-511): the APIs and versions that this broker serves.

A request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION and the version
range of this API, so that the client retries with a lower version. Of Kafka's features (KIP-584)
this broker has transaction.version, which announces transactions V2 to clients (KIP-890).

SaslHandshake 0-1 selects a mechanism (KIP-43). SaslAuthenticate 0-2 carries the mechanism's
messages (KIP-152) and the session lifetime (KIP-368). net/dispatcher.py answers both during
authentication. They reach these handlers only if the listener has no SASL or the client is already
authenticated, and fail with ILLEGAL_SASL_STATE, as in KafkaApis.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.protocol.messages import Values

NAMED_VERSION = 3
LEVEL_0_VERSION = 4
TRANSACTION_VERSION = 2
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Kafka's ApiVersionsRequest.SUPPORTED_CLIENT_SOFTWARE_PATTERN."""


def _entry(api: ApiKey, versions: VersionRange) -> Values:
    """Return the entry of one API in the response."""
    return {"api_key": int(api), "min_version": versions.lowest, "max_version": versions.highest}


def _features(context: RequestContext) -> Values:
    """Return the fields of supported and finalized features.

    Supported features are left out up to version 3: those clients cannot read a minimum level of 0.
    """
    config = context.cluster.config
    if not config.has_transaction_version:
        return {"finalized_features_epoch": -1}
    name, level = "transaction.version", config.transaction_level
    supported = [{"name": name, "min_version": 0, "max_version": TRANSACTION_VERSION}]
    finalized = [{"name": name, "max_version_level": level, "min_version_level": level}]
    return {
        "supported_features": supported if context.version >= LEVEL_0_VERSION else [],
        "finalized_features": finalized if level else [],
        "finalized_features_epoch": 1,  # They never change.
    }


def unsupported_version(served: VersionRange) -> dict[str, Any]:
    """Return the response to an unsupported version, which must be encoded in version 0.

    Releases without version 3 do not include the version range.
    """
    own = [_entry(ApiKey.API_VERSIONS, served)] if served.highest >= NAMED_VERSION else []
    return {"error_code": ErrorCode.unsupported_version, "api_keys": own}


def api_versions(others: Iterable[Handler], versions: VersionRange) -> Handler:
    """Return the handler that announces itself and the other handlers."""
    announced = {handler.api: handler.announced or handler.versions for handler in others}
    announced[ApiKey.API_VERSIONS] = versions
    keys = [_entry(api, announced[api]) for api in sorted(announced)]

    def handle(context: RequestContext) -> Answer:
        fields = ("client_software_name", "client_software_version")
        if not all(_SOFTWARE.fullmatch(context.get(field, "1")) for field in fields):
            return {"error_code": ErrorCode.invalid_request, "api_keys": []}
        return {"api_keys": keys, **_features(context)}

    return Handler(ApiKey.API_VERSIONS, versions, handle)


def sasl_handshake(_: RequestContext) -> Answer:
    """Handle the SaslHandshake API."""
    return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}


def sasl_authenticate(_: RequestContext) -> Answer:
    """Handle the SaslAuthenticate API."""
    return {
        "error_code": ErrorCode.illegal_sasl_state,
        "error_message": "SaslAuthenticate request received after successful authentication",
    }
