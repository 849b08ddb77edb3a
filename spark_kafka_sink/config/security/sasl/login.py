"""With what the client logs in: from the mechanism, the sasl.* options and the login module."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import (
    JaasLogin,
    Login,
    Mechanism,
    PasswordLogin,
    SaslConfig,
)
from spark_kafka_sink.config.security.sasl.jaas import JaasOptions, LoginModule, parse_jaas
from spark_kafka_sink.config.security.sasl.java_classes import LoginHandler, login_handler
from spark_kafka_sink.config.security.sasl.kerberos import kerberos_login
from spark_kafka_sink.config.security.sasl.login_options import misspelt, warn_misspelt
from spark_kafka_sink.config.security.sasl.msk_iam import msk_iam_login
from spark_kafka_sink.config.security.sasl.oauthbearer import oauthbearer_login
from spark_kafka_sink.config.security.values import SecurityValues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.common.secret import Secret
    from spark_kafka_sink.config.security.sasl.jaas import JaasEntry

_MODULES: Mapping[Mechanism, tuple[LoginModule, ...]] = {
    Mechanism.PLAIN: (LoginModule.PLAIN,),
    Mechanism.SCRAM_SHA_256: (LoginModule.SCRAM,),
    Mechanism.SCRAM_SHA_512: (LoginModule.SCRAM,),
    Mechanism.OAUTHBEARER: (LoginModule.OAUTHBEARER,),
    Mechanism.AWS_MSK_IAM: (LoginModule.IAM, LoginModule.OAUTHBEARER),
    Mechanism.GSSAPI: (LoginModule.KERBEROS,),
}
"""The login modules of each mechanism; the first one is the usual one."""

_SCRAM = frozenset({Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512})
_logger = logging.getLogger(__name__)


def mechanism_of(values: SecurityValues) -> Mechanism:
    """The mechanism asked for; Amazon has a way to ask for its own by OAUTHBEARER's name.

    Raises:
        ConfigError: it is not known, or an option names a Java class that is not known.
    """
    handler = login_handler(values)
    asked = Mechanism(values.text("sasl.mechanism"))
    amazon = asked is Mechanism.OAUTHBEARER and handler is LoginHandler.MSK_IAM
    return Mechanism.AWS_MSK_IAM if amazon else asked


def resolve(config: SaslConfig) -> Login:
    """With what to log in, now and here: follows a `JaasLogin` to what it refers to.

    Raises:
        ConfigError: the reference leads nowhere on this host, or to something that is no login.
    """
    if not isinstance(config.login, JaasLogin):
        return config.login
    jaas = config.login.jaas
    entry = parse_jaas(jaas.reveal(), jaas.option)
    return build_login(config.mechanism, SecurityValues(dict(config.login.settings)), entry)


def build_login(mechanism: Mechanism, values: SecurityValues, entry: JaasEntry | None) -> Login:
    """With what to log in; `entry` is None where there is no sasl.jaas.config.

    Raises:
        ConfigError: the login is not for the mechanism, or something is missing in it.
    """
    if entry is None:
        return _login(mechanism, values, JaasOptions())
    _check_module(mechanism, values, entry)
    login = _login(mechanism, values, entry.options)
    warn_misspelt(entry.module, entry.options)
    return login


def _login(mechanism: Mechanism, values: SecurityValues, options: JaasOptions) -> Login:
    match mechanism:
        case Mechanism.OAUTHBEARER:
            return oauthbearer_login(values, options)
        case Mechanism.AWS_MSK_IAM:
            return msk_iam_login(options)
        case Mechanism.GSSAPI:
            return kerberos_login(values, options)
        case _:
            return PasswordLogin(
                username=_needed(mechanism, values, options, "username"),
                password=_needed(mechanism, values, options, "password"),
                token_auth=mechanism is not Mechanism.PLAIN and options.flag("tokenauth"),
            )


def _check_module(mechanism: Mechanism, values: SecurityValues, entry: JaasEntry) -> None:
    wanted = _MODULES[mechanism]
    if entry.module in wanted:
        return
    if mechanism in _SCRAM and entry.module is LoginModule.PLAIN:
        # Java's modules do no more than to give name and password to whichever mechanism there is.
        warn_plain_module(entry.options.place, mechanism.value)
        return
    if mechanism is Mechanism.PLAIN and entry.module is LoginModule.SCRAM:
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is PLAIN, which sends the password itself, "
            f"and {entry.options.place} has {entry.module.short}, whose login only proves it",
            hint=f"Set {values.name('sasl.mechanism')} to SCRAM-SHA-256 or SCRAM-SHA-512; or, to "
            f"send the password as Java would here, use {wanted[0].value}.",
        )
    fitting = [each.value for each, modules in _MODULES.items() if entry.module in modules]
    default = "" if values.given("sasl.mechanism") else ", Java's default,"
    raise ConfigError(
        f"option {values.name('sasl.mechanism')} is {mechanism.value}{default} and "
        f"{entry.options.place} has {entry.module.short}",
        hint=f"Set {values.name('sasl.mechanism')} to {' or '.join(fitting)}, or use "
        f"{wanted[0].value}.",
    )


@cache
def warn_plain_module(place: str, mechanism: str) -> None:
    """Say once per process that the login is another one than the login module's name says."""
    _logger.warning(
        "%s has PlainLoginModule; the login is by %s all the same, as with Java's clients: use "
        "ScramLoginModule",
        place,
        mechanism,
    )


def _needed(
    mechanism: Mechanism, values: SecurityValues, options: JaasOptions, name: str
) -> Secret:
    """The user's name or password, from one of the two places where it can stand."""
    option = f"sasl.{name}"
    own, jaas = values.secret(option), options.secret(name)
    if own is not None and jaas is not None and own.source != jaas.source:
        raise ConfigError(
            f"option {values.name(option)} and {jaas.option} have different values",
            hint="Leave one of them out.",
        )
    found = own if own is not None and own.source else jaas
    if found is None:
        module = _MODULES[mechanism][0]
        typo = ""
        if name in misspelt(module, options):
            typo = f"{options.place} has an unknown option: did you mean {name}? "
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is {mechanism.value}, which needs a {name}",
            hint=f"{typo}Set {values.name(option)}, or {options.name(name)}:"
            f' {module.value} required username="..." password="...";',
        )
    return found
