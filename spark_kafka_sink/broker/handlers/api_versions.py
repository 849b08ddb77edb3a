"""ApiVersions 0-4 (KIP-35, KIP-511): what this broker serves.

An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range of this API, so
that the client comes again lower. The broker has no features (KIP-584), as it has no transactions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Call, Handler
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.broker.call import Answer
    from spark_kafka_sink.protocol.build import Values

VERSIONS = VersionRange(0, 4)
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""As ApiVersionsRequest.SUPPORTED_CLIENT_SOFTWARE_PATTERN."""


def entry(api: ApiKey, versions: VersionRange) -> Values:
    """One API as ApiVersions names it."""
    return {
        "api_key": int(api),
        "min_version": versions.lowest,
        "max_version": versions.highest,
    }


def unsupported_version() -> dict[str, Any]:
    """The answer to a version that is not served; it has to be written as version 0."""
    return {
        "error_code": ErrorCode.unsupported_version,
        "api_keys": [entry(ApiKey.API_VERSIONS, VERSIONS)],
    }


def make(others: Iterable[Handler]) -> Handler:
    """Make the handler that announces the others and itself."""
    announced = {handler.api: handler.announced or handler.versions for handler in others}
    announced[ApiKey.API_VERSIONS] = VERSIONS
    keys = [entry(api, announced[api]) for api in sorted(announced)]

    def handle(call: Call) -> Answer:
        software = (call.get("client_software_name", "a"), call.get("client_software_version", "1"))
        if not all(map(_SOFTWARE.fullmatch, software)):
            return {"error_code": ErrorCode.invalid_request, "api_keys": []}
        return {"api_keys": keys}

    return Handler(api=ApiKey.API_VERSIONS, versions=VERSIONS, handle=handle)
