"""Features of a cluster, as ApiVersions names them since version 3 (KIP-584).

Source: ``ApiVersionsResponse.json``, ``FinalizedFeatures``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.versions import VersionRange

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """What one broker says of features; empty where it has none.

    `supported` are the levels that the broker can work at, `finalized` those that the whole
    cluster works at. `epoch` counts the changes of `finalized`; NO_EPOCH where nothing is known.
    """

    supported: Mapping[str, VersionRange] = field(default_factory=lambda: MappingProxyType({}))
    finalized: Mapping[str, VersionRange] = field(default_factory=lambda: MappingProxyType({}))
    epoch: int = NO_EPOCH

    def level(self, name: str) -> int:
        """The level at which a feature is finalized, 0 where it is not."""
        levels = self.finalized.get(name)
        return 0 if levels is None else levels.highest

    @classmethod
    def of(cls, response: Any) -> Features:
        """Those of an ApiVersionsResponse of any version."""
        epoch = int(getattr(response, "finalized_features_epoch", NO_EPOCH))
        supported = {
            key.name: VersionRange(int(key.min_version), int(key.max_version))
            for key in getattr(response, "supported_features", ())
        }
        finalized = {
            key.name: VersionRange(int(key.min_version_level), int(key.max_version_level))
            for key in getattr(response, "finalized_features", ())
        }
        return cls(
            supported=MappingProxyType(supported),
            finalized=MappingProxyType(finalized if epoch > NO_EPOCH else {}),
            epoch=epoch,
        )
