"""The action for each response of a transaction coordinator."""

import pytest

from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions.coordinator import CoordinatorAction, decide

FIND, INIT = ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID
ADD, END = ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.END_TXN
ALWAYS = {
    0: CoordinatorAction.DONE,
    **dict.fromkeys((7, 14, 51), CoordinatorAction.RETRY),
    **dict.fromkeys((13, 15, 16, *ClientErrorCode), CoordinatorAction.FIND_COORDINATOR),
    120: CoordinatorAction.ABORT,
}
TO_PARTITIONS = {
    3: CoordinatorAction.RETRY,
    55: CoordinatorAction.RETRY,
    29: CoordinatorAction.DENIED,
}


@pytest.mark.parametrize("api", [FIND, INIT, ADD, END])
def test_action_for_every_error(api: ApiKey) -> None:
    expected = ALWAYS | (TO_PARTITIONS if api is ADD else {})
    for code in (*map(int, ErrorCode), *ClientErrorCode, 9_999):
        assert decide(api, code) is expected.get(code, CoordinatorAction.FAIL)
