"""ListGroups 0-5: the groups that this node coordinates; by state since 4, by type since 5."""

from __future__ import annotations

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

CLASSIC = "classic"


def handle(context: RequestContext) -> Answer:
    """Handle the ListGroups API."""
    states = {state.lower() for state in context.get("states_filter", ())}
    types = {kind.lower() for kind in context.get("types_filter", ())}
    return {
        "groups": [
            {
                "group_id": group.id,
                "protocol_type": group.protocol_type,
                "group_state": str(group.state),
                "group_type": CLASSIC,
            }
            for group in context.cluster.group_coordinator.all()
            if context.cluster.coordinator(group.id).id == context.node
            and (not states or group.state.lower() in states)
            and (not types or CLASSIC in types)
        ]
    }


HANDLER = Handler(api=ApiKey.LIST_GROUPS, versions=VersionRange(0, 5), handle=handle)
