"""SyncGroup 0-5: the leader's assignments go out to all members."""

from __future__ import annotations

from spark_kafka_sink.broker.call import Answer, Call, Handler, Outcome
from spark_kafka_sink.broker.handlers.membership import coordinated, speaks
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


def handle(call: Call) -> Answer:
    """See the module."""
    request = call.request
    if error := coordinated(call):
        return {"error_code": error}
    group = call.cluster.groups.get(request.group_id)
    if error := speaks(call, group, request.generation_id):
        return {"error_code": error}
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
    if error := group.sync(request.member_id, assignments, call.reply):
        return {"error_code": error}
    return Outcome.LATER


HANDLER = Handler(api=ApiKey.SYNC_GROUP, versions=VersionRange(0, 5), handle=handle)
