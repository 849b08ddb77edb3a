"""AWS_MSK_IAM's login, from the options of Amazon's IAMLoginModule (aws-msk-iam-auth)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import MskIamLogin

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.sasl.jaas import JaasOptions

_REFUSED = (
    "awsRoleAccessKeyId",
    "awsRoleSecretAccessKey",
    "awsRoleSessionToken",
    "awsRoleExternalId",
)
"""They choose other credentials than those that would be used without them."""


def msk_iam_login(options: JaasOptions) -> MskIamLogin:
    """Credentials of AWS's default chain, a profile or a role.

    Raises:
        ConfigError: an option asks for credentials that can't be had here.
    """
    for name in _REFUSED:
        if options.text(name) is not None:
            raise ConfigError(
                f"{options.name(name)} is not supported",
                hint="Give credentials by AWS's default chain (environment, profile, instance), "
                "and a role to take on by awsRoleArn.",
            )
    return MskIamLogin(
        profile=options.text("awsProfileName"),
        role_arn=options.text("awsRoleArn"),
        role_session_name=options.text("awsRoleSessionName"),
        sts_region=options.text("awsStsRegion"),
        debug_credentials=options.flag("awsDebugCreds"),
    )
