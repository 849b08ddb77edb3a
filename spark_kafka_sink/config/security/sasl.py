"""Build a `SaslConfig` from the SASL options: mechanism, login module and credentials.

Unknown options of a login module have no effect, as in Java, but likely typos are logged. Logged
lines and errors show only known names, because text next to a misplaced quote might be a password.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, assert_never

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.common.similar_names import nearest
from spark_kafka_sink.config.option_definition import names_in
from spark_kafka_sink.config.security.jaas import JaasOptions, LoginModule, parse_jaas
from spark_kafka_sink.config.security.java_classes import LoginHandler, login_handler
from spark_kafka_sink.config.security.oauthbearer import UNKNOWN_OPTION, oauthbearer_login
from spark_kafka_sink.config.security.security_config import (
    JaasLogin,
    KerberosLogin,
    Login,
    Mechanism,
    MskIamLogin,
    PasswordLogin,
    RefreshPolicy,
    SaslConfig,
)
from spark_kafka_sink.config.security.security_values import SecurityValues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.config.security.jaas import JaasEntry


_SERVICE_NAME = "sasl.kerberos.service.name"
_REJECTED_AWS_OPTIONS = (
    "awsRoleAccessKeyId",
    "awsRoleSecretAccessKey",
    "awsRoleSessionToken",
    "awsRoleExternalId",
)
"""If these options were ignored, the login would use the wrong credentials."""
_TYPO_SIMILARITY = 0.75
"""Minimum similarity of a typo. difflib's ratio is 0.88 for `passwort` and `password`, but only
0.67 for `user` and `username`.
"""
_SYNONYMS = {"user": "username", "passwd": "password", "pwd": "password"}
_MODULE_OPTIONS: Mapping[LoginModule, frozenset[str]] = {
    LoginModule.PLAIN: names_in("username password"),
    LoginModule.SCRAM: names_in("username password tokenauth"),
    LoginModule.OAUTHBEARER: names_in("clientId clientSecret scope"),
    LoginModule.IAM: names_in(
        "awsProfileName awsRoleArn awsRoleSessionName awsStsRegion awsDebugCreds awsMaxRetries "
        "awsMaxBackOffTimeMs"
    ),
    LoginModule.KERBEROS: names_in(
        "useKeyTab keyTab storeKey principal useTicketCache ticketCache serviceName doNotPrompt "
        "renewTGT refreshKrb5Config isInitiator debug"
    ),
}
"""The options of each login module: those that have an effect, and Java's other options."""
_OTHER_PREFIXES = ("extension_", "oauth.", "ssl.", "unsecuredLogin")
"""Prefixes of options of OAUTHBEARER, which are no typos of the others."""
_LOG = logging.getLogger(__name__)
_SECRET_OPTIONS = frozenset({"password", "clientSecret"})
_PUBLIC_ENDINGS = (".location", ".type")
_MODULES: Mapping[Mechanism, tuple[LoginModule, ...]] = {
    Mechanism.PLAIN: (LoginModule.PLAIN,),
    Mechanism.SCRAM_SHA_256: (LoginModule.SCRAM,),
    Mechanism.SCRAM_SHA_512: (LoginModule.SCRAM,),
    Mechanism.OAUTHBEARER: (LoginModule.OAUTHBEARER,),
    Mechanism.AWS_MSK_IAM: (LoginModule.IAM, LoginModule.OAUTHBEARER),
    Mechanism.GSSAPI: (LoginModule.KERBEROS,),
}
"""The accepted login modules for each mechanism, the usual module first."""
_TOKEN_MECHANISMS = frozenset({Mechanism.OAUTHBEARER, Mechanism.AWS_MSK_IAM})
_MECHANISMS_OF_PREFIX: Mapping[str, frozenset[Mechanism]] = {
    "sasl.oauthbearer.": _TOKEN_MECHANISMS,
    "https.": _TOKEN_MECHANISMS,
    "sasl.kerberos.": frozenset({Mechanism.GSSAPI}),
}
"""The mechanisms that use the options with a prefix."""
_SCRAM_MECHANISMS = frozenset({Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512})
JAAS = "sasl.jaas.config"


def _kerberos_login(values: SecurityValues, options: JaasOptions) -> KerberosLogin:
    """Build the login with a keytab and its principal, or with the ticket cache.

    Raises:
        ConfigError: the service name is missing, useKeyTab is set without keyTab, or an option and
            the login module have different values.
    """
    uses_keytab = options.flag("useKeyTab")
    keytab = _only_value(values, "sasl.kerberos.keytab", options, "keyTab")
    if uses_keytab and keytab is None:
        raise ConfigError(
            f"useKeyTab=true in {options.option_name} requires keyTab",
            hint='Add keyTab="/path/of/the.keytab", or useTicketCache=true instead.',
        )
    return KerberosLogin(
        service_name=_service_name(values, options),
        principal=_only_value(values, "sasl.kerberos.principal", options, "principal"),
        keytab=keytab if uses_keytab else values.text("sasl.kerberos.keytab"),
        ticket_cache=options.text("ticketCache"),
    )


def _service_name(values: SecurityValues, options: JaasOptions) -> str:
    """Return the service name from the option or the login module, as Java's KerberosLogin does."""
    login = _only_value(values, _SERVICE_NAME, options, "serviceName")
    if login is None:
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is GSSAPI, which requires "
            f"{values.name(_SERVICE_NAME)}"
            + ("" if values.is_set("sasl.mechanism") else "; GSSAPI is Java's default mechanism"),
            hint=f"Set {values.name(_SERVICE_NAME)} to the first part of the brokers' principals, "
            f"usually kafka, or set {values.name('sasl.mechanism')} to another mechanism.",
        )
    return login


def _only_value(values: SecurityValues, option: str, options: JaasOptions, name: str) -> str | None:
    """Return a value from an option or the login module, where a keytab may be a file: URL."""
    option_value, jaas_value = values.text(option), (options.text(name) or "").removeprefix("file:")
    if option_value is not None and jaas_value not in ("", option_value):
        raise ConfigError(
            f"option {values.name(option)} is {safe_repr(option_value)}, but {options.name(name)} "
            "is different",
            hint="Remove one of them.",
        )
    return option_value or jaas_value or None


def _msk_iam_login(options: JaasOptions) -> MskIamLogin:
    """Build the login with credentials from AWS's default chain, a profile or a role.

    Raises:
        ConfigError: an option requires credentials that are not supported.
    """
    for name in _REJECTED_AWS_OPTIONS:
        if options.text(name) is not None:
            raise ConfigError(
                f"{options.name(name)} is not supported",
                hint="Use AWS's default credential chain (environment, profile, instance), and "
                "awsRoleArn for a role to assume.",
            )
    return MskIamLogin(
        profile=options.text("awsProfileName"),
        role_arn=options.text("awsRoleArn"),
        role_session_name=options.text("awsRoleSessionName"),
        sts_region=options.text("awsStsRegion"),
        debug_credentials=options.flag("awsDebugCreds"),
    )


def may_contain_secret(entry: JaasEntry) -> bool:
    """Return True if a login might contain a secret, not just a reference to a secret.

    Any value that is not known to be public might be a secret, such as a password under a
    misspelled name.
    """
    public = _MODULE_OPTIONS[entry.module] - _SECRET_OPTIONS
    others = {
        name: value
        for name, value in entry.options.options.items()
        if name not in public and not name.endswith(_PUBLIC_ENDINGS)
    }
    return not all(Secret(value, name).is_reference for name, value in others.items())


def _misspelled_options(module: LoginModule, options: JaasOptions) -> tuple[str, ...]:
    """Return the known options that are not set but resemble an unknown option that is set."""
    known, own_options = _MODULE_OPTIONS[module], options.options
    resembled = {
        _SYNONYMS.get(name.lower()) or nearest(name, known, _TYPO_SIMILARITY)
        for name in own_options.keys() - known
        if not name.startswith(_OTHER_PREFIXES)
    }
    return tuple(sorted(name for name in known & resembled if name not in own_options))


def _warn_misspelled(module: LoginModule, options: JaasOptions) -> None:
    """Warn about options of a login module that might be misspelled."""
    for name in _misspelled_options(module, options):
        warn_once(_LOG, UNKNOWN_OPTION, options.option_name, name)


def _mechanism_of(values: SecurityValues) -> Mechanism:
    """Return the mechanism. It is AWS_MSK_IAM for OAUTHBEARER with Amazon's callback handler.

    Raises:
        ConfigError: the mechanism is unknown, or an option contains an unknown Java class.
    """
    handler = login_handler(values)
    mechanism = Mechanism(values.text("sasl.mechanism"))
    is_msk_iam = mechanism is Mechanism.OAUTHBEARER and handler is LoginHandler.MSK_IAM
    return Mechanism.AWS_MSK_IAM if is_msk_iam else mechanism


def resolve_references(config: SaslConfig) -> Login:
    """Return the login. If it is a `JaasLogin`, resolve it on this host.

    Raises:
        ConfigError: the reference cannot be resolved on this host, or the referenced text is not a
            valid login.
    """
    if not isinstance(config.login, JaasLogin):
        return config.login
    jaas = config.login.jaas
    entry = parse_jaas(jaas.reveal(), jaas.option)
    return _build_login(config.mechanism, SecurityValues(dict(config.login.settings)), entry)


def _build_login(mechanism: Mechanism, values: SecurityValues, entry: JaasEntry | None) -> Login:
    """Build the login of a mechanism; `entry` is None if there is no sasl.jaas.config.

    Raises:
        ConfigError: the login module does not support the mechanism, or a setting is missing.
    """
    if entry is None:
        return _login_of(mechanism, values, JaasOptions())
    _check_module(mechanism, values, entry)
    login = _login_of(mechanism, values, entry.options)
    _warn_misspelled(entry.module, entry.options)
    return login


def _login_of(mechanism: Mechanism, values: SecurityValues, options: JaasOptions) -> Login:
    match mechanism:
        case Mechanism.OAUTHBEARER:
            return oauthbearer_login(values, options)
        case Mechanism.AWS_MSK_IAM:
            return _msk_iam_login(options)
        case Mechanism.GSSAPI:
            return _kerberos_login(values, options)
        case Mechanism.PLAIN | Mechanism.SCRAM_SHA_256 | Mechanism.SCRAM_SHA_512:
            return PasswordLogin(
                username=_required_secret(mechanism, values, options, "username"),
                password=_required_secret(mechanism, values, options, "password"),
                token_auth=mechanism is not Mechanism.PLAIN and options.flag("tokenauth"),
            )
        case _:
            assert_never(mechanism)


def _check_module(mechanism: Mechanism, values: SecurityValues, entry: JaasEntry) -> None:
    login_modules = _MODULES[mechanism]
    if entry.module in login_modules:
        return
    if mechanism in _SCRAM_MECHANISMS and entry.module is LoginModule.PLAIN:
        # Java's modules only pass the user name and password to the configured mechanism.
        warn_once(
            _LOG,
            "%s uses PlainLoginModule, but the login uses %s, as in Java clients: use "
            "ScramLoginModule",
            entry.options.option_name,
            mechanism.value,
        )
        return
    if mechanism is Mechanism.PLAIN and entry.module is LoginModule.SCRAM:
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is PLAIN, which sends the password, but "
            f"{entry.options.option_name} uses {entry.module.simple_name}, which never sends it",
            hint=f"Set {values.name('sasl.mechanism')} to SCRAM-SHA-256 or SCRAM-SHA-512, or use "
            f"{login_modules[0].value} to send the password as Java would.",
        )
    mechanisms = [allowed.value for allowed, modules in _MODULES.items() if entry.module in modules]
    default = "" if values.is_set("sasl.mechanism") else ", Java's default,"
    raise ConfigError(
        f"option {values.name('sasl.mechanism')} is {mechanism.value}{default} but "
        f"{entry.options.option_name} uses {entry.module.simple_name}",
        hint=f"Set {values.name('sasl.mechanism')} to {' or '.join(mechanisms)}, or use "
        f"{login_modules[0].value}.",
    )


def _required_secret(
    mechanism: Mechanism, values: SecurityValues, options: JaasOptions, name: str
) -> Secret:
    """Return the user name or the password, from the option or from the login module."""
    option = f"sasl.{name}"
    secret, jaas_secret = values.secret(option), options.secret(name)
    if secret is not None and jaas_secret is not None and secret.source != jaas_secret.source:
        raise ConfigError(
            f"option {values.name(option)} and {jaas_secret.option} have different values",
            hint="Remove one of them.",
        )
    source_options = secret if secret is not None and secret.source else jaas_secret
    if source_options is None:
        module = _MODULES[mechanism][0]
        typo = ""
        if name in _misspelled_options(module, options):
            typo = f"{options.option_name} has an unknown option: did you mean {name}? "
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is {mechanism.value}, which requires a {name}",
            hint=f"{typo}Set {values.name(option)}, or {options.name(name)}:"
            f' {module.value} required username="..." password="...";',
        )
    return source_options


def sasl_config(values: SecurityValues) -> SaslConfig:
    """Build the SASL settings of a client.

    If sasl.jaas.config is a reference, the result contains the reference. Errors in the referenced
    text are detected now if this process can resolve the reference, and otherwise by the tasks.

    Raises:
        ConfigError: options contradict each other, or a required option is missing.
    """
    mechanism = _mechanism_of(values)
    _warn_unused(values, mechanism)
    refresh = _refresh_policy(values)
    jaas = values.secret(JAAS)
    if jaas is None or not jaas.source:
        login = _build_login(mechanism, values, None)
        return SaslConfig(mechanism=mechanism, login=login, refresh=refresh)
    if not jaas.is_reference:
        login = _build_login(mechanism, values, parse_jaas(jaas.reveal(), jaas.option))
        return SaslConfig(mechanism=mechanism, login=login, refresh=refresh)
    settings = {name: values.values[name] for name in sorted(values.values) if _is_for_login(name)}
    deferred = JaasLogin(jaas=jaas, settings=tuple(settings.items()))
    config = SaslConfig(mechanism=mechanism, login=deferred, refresh=refresh)
    if jaas.exists_on_host:
        resolve_references(config)
    return config


def _warn_unused(values: SecurityValues, mechanism: Mechanism) -> None:
    for option in values.values:
        mechanisms = next(
            (users for prefix, users in _MECHANISMS_OF_PREFIX.items() if option.startswith(prefix)),
            None,
        )
        if mechanisms is not None and mechanism not in mechanisms:
            warn_once(
                _LOG,
                "Option %s has no effect because %s is %s",
                values.name(option),
                values.name("sasl.mechanism"),
                mechanism.value,
            )


def _is_for_login(option: str) -> bool:
    return option != JAAS and option.startswith(("sasl.", "https."))


def _refresh_policy(values: SecurityValues) -> RefreshPolicy:
    return RefreshPolicy(
        window_factor=values.fraction("sasl.login.refresh.window.factor"),
        window_jitter=values.fraction("sasl.login.refresh.window.jitter"),
        min_period_seconds=values.number("sasl.login.refresh.min.period.seconds") or 0,
        buffer_seconds=values.number("sasl.login.refresh.buffer.seconds") or 0,
    )
