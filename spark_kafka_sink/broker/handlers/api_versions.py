"""ApiVersions, and SASL requests outside of authentication."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.broker.handlers.request_context import ServedApi
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.handlers.request_context import HandlerResult, RequestContext
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


_LISTS_ITSELF = 3
"""First version of ApiVersions that the response to an unsupported version lists."""
_ALLOWS_LEVEL_0 = 4
"""First version whose clients accept features with a minimum level of 0."""
_MAX_TRANSACTION_VERSION = 2
"""Highest level of the feature transaction.version."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Kafka's ApiVersionsRequest.SUPPORTED_CLIENT_SOFTWARE_PATTERN."""


def _api_entry(api: ApiKey, versions: VersionRange) -> FieldValues:
    """Return the entry of one API in the response."""
    return {"api_key": int(api), "min_version": versions.lowest, "max_version": versions.highest}


def _features(context: RequestContext) -> FieldValues:
    """Return the fields of supported and finalized features.

    Up to version 3, supported features are omitted, because clients with these versions reject a
    minimum level of 0.
    """
    config = context.cluster.config
    if not config.has_transaction_version:
        return {"finalized_features_epoch": -1}
    name, level = "transaction.version", config.transaction_level
    supported = [{"name": name, "min_version": 0, "max_version": _MAX_TRANSACTION_VERSION}]
    finalized = [{"name": name, "max_version_level": level, "min_version_level": level}]
    return {
        "supported_features": supported if context.version >= _ALLOWS_LEVEL_0 else [],
        "finalized_features": finalized if level else [],
        "finalized_features_epoch": 1,  # Features never change.
    }


def unsupported_version(served: VersionRange) -> dict[str, Any]:
    """Return the response to a request of an unsupported version. It is encoded in version 0.

    Kafka releases that do not support version 3 do not include the version range.
    """
    keys = [_api_entry(ApiKey.API_VERSIONS, served)] if served.highest >= _LISTS_ITSELF else []
    return {"error_code": ErrorCode.unsupported_version, "api_keys": keys}


def api_versions(others: Iterable[ServedApi], versions: VersionRange) -> ServedApi:
    """Return the ApiVersions handler, which announces ApiVersions and the APIs in `others`.

    ApiVersions 0-4 (KIP-35, KIP-511). The response to a request with an unknown version has version
    0, the error UNSUPPORTED_VERSION and the version range of this API, so that the client retries
    with a lower version. The broker has only one of Kafka's features (KIP-584): transaction.version
    announces transactions V2 (KIP-890).
    """
    announced = {handler.api: handler.announced or handler.versions for handler in others}
    announced[ApiKey.API_VERSIONS] = versions
    keys = [_api_entry(api, announced[api]) for api in sorted(announced)]

    def handle(context: RequestContext) -> HandlerResult:
        fields = ("client_software_name", "client_software_version")
        if not all(_SOFTWARE.fullmatch(context.get(field, "1")) for field in fields):
            return {"error_code": ErrorCode.invalid_request, "api_keys": []}
        return {"api_keys": keys, **_features(context)}

    return ServedApi(ApiKey.API_VERSIONS, versions, handle)


def sasl_handshake(_: RequestContext) -> HandlerResult:
    """Fail with ILLEGAL_SASL_STATE: authentication is complete or not used, as in KafkaApis.

    During authentication, net/dispatcher.py processes SaslHandshake 0-1, which selects a mechanism
    (KIP-43), and SaslAuthenticate 0-2, which carries the mechanism's messages (KIP-152) and the
    session lifetime (KIP-368).
    """
    return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}


def sasl_authenticate(_: RequestContext) -> HandlerResult:
    """See `sasl_handshake`."""
    return {
        "error_code": ErrorCode.illegal_sasl_state,
        "error_message": "SaslAuthenticate request received after successful authentication",
    }
