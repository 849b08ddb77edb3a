"""ApiVersions 0-4 (KIP-35, KIP-511): the APIs and versions that this broker serves.

A request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION and the version
range of this API, so that the client retries with a lower version. Of Kafka's features (KIP-584)
this broker has transaction.version, which announces transactions V2 to clients (KIP-890).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.handlers.request_context import Answer
    from spark_kafka_sink.protocol.messages import Values

VERSIONS = VersionRange(0, 4)
NAMED_VERSION = 3
LEVEL_0_VERSION = 4
TRANSACTION_VERSION = 2
NO_FEATURES_EPOCH = -1
FEATURES_EPOCH = 1
"""The epoch of the finalized features, which never change here."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""Kafka's ApiVersionsRequest.SUPPORTED_CLIENT_SOFTWARE_PATTERN."""


def entry(api: ApiKey, versions: VersionRange) -> Values:
    """Return the entry of one API in the response."""
    return {
        "api_key": int(api),
        "min_version": versions.lowest,
        "max_version": versions.highest,
    }


def _features(context: RequestContext) -> Values:
    """Return the fields of supported and finalized features.

    Supported features are left out up to version 3: those clients cannot read a minimum level of 0.
    """
    config = context.cluster.config
    if not config.has_transaction_version:
        return {"finalized_features_epoch": NO_FEATURES_EPOCH}
    name, level = "transaction.version", config.transaction_level
    supported = [{"name": name, "min_version": 0, "max_version": TRANSACTION_VERSION}]
    finalized = [{"name": name, "max_version_level": level, "min_version_level": level}]
    return {
        "supported_features": supported if context.version >= LEVEL_0_VERSION else [],
        "finalized_features": finalized if level else [],
        "finalized_features_epoch": FEATURES_EPOCH,
    }


def unsupported_version(served: VersionRange) -> dict[str, Any]:
    """Return the response to an unsupported version, which must be encoded in version 0.

    Releases without version 3 do not include the version range.
    """
    own = [entry(ApiKey.API_VERSIONS, served)] if served.highest >= NAMED_VERSION else []
    return {"error_code": ErrorCode.unsupported_version, "api_keys": own}


def make(others: Iterable[Handler], versions: VersionRange = VERSIONS) -> Handler:
    """Return the handler that announces itself and the other handlers."""
    announced = {handler.api: handler.announced or handler.versions for handler in others}
    announced[ApiKey.API_VERSIONS] = versions
    keys = [entry(api, announced[api]) for api in sorted(announced)]

    def handle(context: RequestContext) -> Answer:
        software = (
            context.get("client_software_name", "a"),
            context.get("client_software_version", "1"),
        )
        if not all(map(_SOFTWARE.fullmatch, software)):
            return {"error_code": ErrorCode.invalid_request, "api_keys": []}
        return {"api_keys": keys, **_features(context)}

    return Handler(api=ApiKey.API_VERSIONS, versions=versions, handle=handle)
