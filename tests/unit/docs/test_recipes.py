"""The examples of docs/security.md are valid options without visible secrets."""

import ast
import logging
import re
from collections.abc import Iterator

import pytest

from spark_kafka_sink.config.security.sasl import resolve_references
from spark_kafka_sink.config.security.security_config import Mechanism, SecurityProtocol
from spark_kafka_sink.config.sink_config import ProducerConfig
from tools.docs.pages import DOCS

BLOCK = re.compile(r"^```python\n(\w+) = (\{.*?^\})\n```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"ConnectionString|alice|env:|file:")


def recipes() -> Iterator[tuple[str, dict[str, str]]]:
    for name, text in BLOCK.findall((DOCS / "security.md").read_text(encoding="utf-8")):
        yield name, ast.literal_eval(text)


RECIPES = dict(recipes())


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_is_accepted_without_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = ProducerConfig.parse(RECIPES[name])
    assert not caplog.records
    assert config.security.protocol.uses_tls
    assert not SHOWN.search(repr(config))


def test_each_mechanism_has_a_recipe() -> None:
    configs = {ProducerConfig.parse(recipe).security for recipe in RECIPES.values()}
    assert {config.protocol for config in configs} == {
        SecurityProtocol.SSL,
        SecurityProtocol.SASL_SSL,
    }
    logins = [config.sasl for config in configs if config.sasl is not None]
    assert {sasl.mechanism for sasl in logins} == set(Mechanism)
    assert all(resolve_references(sasl) == sasl.login for sasl in logins)
