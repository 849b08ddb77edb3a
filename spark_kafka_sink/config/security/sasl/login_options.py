"""The options of login modules by name, for those that are misspelt: Java ignores what is unknown.

No more than the names that are known is ever shown: what stands beside a misplaced quote may be a
password.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.common.similarity import nearest
from spark_kafka_sink.config.security.sasl.jaas import LoginModule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.config.security.sasl.jaas import JaasEntry, JaasOptions

_TYPO = 0.75
"""difflib's ratio of `passwort` and `password` is 0.88, of `user` and `username` 0.67."""
_SYNONYMS = {"user": "username", "passwd": "password", "pwd": "password"}
_OPTIONS: Mapping[LoginModule, frozenset[str]] = {
    LoginModule.PLAIN: frozenset({"username", "password"}),
    LoginModule.SCRAM: frozenset({"username", "password", "tokenauth"}),
    LoginModule.OAUTHBEARER: frozenset({"clientId", "clientSecret", "scope"}),
    LoginModule.IAM: frozenset(
        {
            "awsProfileName",
            "awsRoleArn",
            "awsRoleSessionName",
            "awsStsRegion",
            "awsDebugCreds",
            "awsMaxRetries",
            "awsMaxBackOffTimeMs",
        }
    ),
    LoginModule.KERBEROS: frozenset(
        {
            "useKeyTab",
            "keyTab",
            "storeKey",
            "principal",
            "useTicketCache",
            "ticketCache",
            "serviceName",
            "doNotPrompt",
            "renewTGT",
            "refreshKrb5Config",
            "isInitiator",
            "debug",
        }
    ),
}
"""Those that have an effect here, and Java's others, which must not be taken for typing errors."""
_logger = logging.getLogger(__name__)


_SECRETS = frozenset({"password", "clientSecret"})
_PUBLIC_ENDINGS = (".location", ".type")


def holds_secret(entry: JaasEntry) -> bool:
    """Whether a login holds what may be a secret itself, and not only where it is.

    What is not known to be public may be a secret, such as a password under a misspelt name.
    """
    public = _OPTIONS[entry.module] - _SECRETS
    others = {
        name: value
        for name, value in entry.options.options.items()
        if name not in public and not name.endswith(_PUBLIC_ENDINGS)
    }
    return not all(Secret(value, name).is_reference for name, value in others.items())


def misspelt(module: LoginModule, options: JaasOptions) -> tuple[str, ...]:
    """The options of a login module that are missing, while another is called nearly so."""
    known, given = _OPTIONS[module], options.options
    found = {
        _SYNONYMS.get(name.lower()) or nearest(name, known, _TYPO) for name in given.keys() - known
    }
    return tuple(sorted(name for name in known & found if name not in given))


def warn_misspelt(module: LoginModule, options: JaasOptions) -> None:
    """Say that an option of a login module may be misspelt."""
    for name in misspelt(module, options):
        warn_option(options.place, name)


@cache
def warn_option(place: str, name: str) -> None:
    """Say once per process that an option is not known, by the name that it may have meant."""
    _logger.warning("%s has an unknown option, without effect: did you mean %s?", place, name)
