"""From the sasl.* options to a `SaslConfig`; `login` says with what to log in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown
from spark_kafka_sink.config.security.model import (
    JaasLogin,
    RefreshPolicy,
    SaslConfig,
)
from spark_kafka_sink.config.security.sasl.jaas import parse_jaas
from spark_kafka_sink.config.security.sasl.login import build_login, mechanism_of, resolve

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.values import SecurityValues

JAAS = "sasl.jaas.config"


def sasl_config(values: SecurityValues) -> SaslConfig:
    """How the client says who it is.

    A sasl.jaas.config that is a reference stays one. Mistakes in what it refers to are found here
    if this process can follow it, and by the tasks otherwise.

    Raises:
        ConfigError: options contradict each other, or one that is needed is missing.
    """
    mechanism = mechanism_of(values)
    refresh = _refresh(values)
    jaas = values.secret(JAAS)
    if jaas is None or not jaas.source:
        login = build_login(mechanism, values, None)
        return SaslConfig(mechanism=mechanism, login=login, refresh=refresh)
    if not jaas.is_reference:
        login = build_login(mechanism, values, parse_jaas(jaas.reveal(), jaas.option))
        return SaslConfig(mechanism=mechanism, login=login, refresh=refresh)
    settings = {name: values.values[name] for name in sorted(values.values) if _for_login(name)}
    deferred = JaasLogin(jaas=jaas, settings=tuple(settings.items()))
    config = SaslConfig(mechanism=mechanism, login=deferred, refresh=refresh)
    if jaas.is_here:
        resolve(config)
    return config


def _for_login(option: str) -> bool:
    return option != JAAS and option.startswith(("sasl.", "https."))


def _refresh(values: SecurityValues) -> RefreshPolicy:
    return RefreshPolicy(
        window_factor=_fraction(values, "sasl.login.refresh.window.factor", 0.5, 1.0),
        window_jitter=_fraction(values, "sasl.login.refresh.window.jitter", 0.0, 0.25),
        min_period_seconds=values.number("sasl.login.refresh.min.period.seconds") or 0,
        buffer_seconds=values.number("sasl.login.refresh.buffer.seconds") or 0,
    )


def _fraction(values: SecurityValues, option: str, low: float, high: float) -> float:
    text = values.text(option) or ""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not low <= number <= high:
        raise ConfigError(
            f"option {values.name(option)} is {shown(text)}; allowed: a number from {low} to {high}"
        )
    return number
