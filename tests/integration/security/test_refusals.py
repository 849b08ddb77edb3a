"""Whatever is wrong with the options, the error says what, and soon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.integration.support.producing import numbered, produce
from tests.support.security.refusals import REFUSALS, Refusal
from tools.support.readers import count

if TYPE_CHECKING:
    from tests.support.security.secured import SecuredKafka

SOON_S = 30
"""The options leave two minutes for delivery, and one for metadata."""


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
def test_the_error_says_what_is_wrong(kafka: SecuredKafka, topic: str, refusal: Refusal) -> None:
    options = refusal.door.java_options(kafka)
    started = time.monotonic()
    with pytest.raises(refusal.error) as caught:
        produce(kafka.servers(refusal.listener), numbered(topic, 0, 10, 1), **options)
    took = time.monotonic() - started
    missing = [words for words in refusal.says if words not in str(caught.value)]
    assert not missing, str(caught.value)
    assert took < SOON_S
    assert count(kafka.bootstrap_servers, topic) == 0
