"""Tokens for Amazon MSK: the base64-encoded URL of a request signed with AWS credentials.

Source: aws-msk-iam-sasl-signer-python, https://github.com/aws/aws-msk-iam-sasl-signer-python.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from botocore.config import Config
from botocore.credentials import CredentialProvider, Credentials
from botocore.exceptions import BotoCoreError, ClientError

from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from spark_kafka_sink.common.text import quoted
from spark_kafka_sink.kafka.security.changing_files import file_stamps
from spark_kafka_sink.kafka.security.tokens.token import Token, TokenSource

if TYPE_CHECKING:
    from collections.abc import Hashable

    from spark_kafka_sink.config.security.security_config import MskIamLogin

_LOG = logging.getLogger(__name__)
_BROKER = re.compile(
    r"\.kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?$"
)
"""Matches b-1.name.abc123.c2.kafka.eu-west-1.amazonaws.com, boot-abc.c1.kafka-serverless.…"""
_AWS_FILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
"""The variables that contain the paths of AWS's files, and their defaults."""
_ROLE_SESSION = "spark-kafka-sink"
_BOUNDED = Config(connect_timeout=10, read_timeout=10, retries={"total_max_attempts": 3})


def region_of(login: MskIamLogin, host: str) -> str:
    """Return the AWS region of a broker.

    Raises:
        ConfigError: the options, the broker's name and the environment do not contain the region.
    """
    match = _BROKER.search(host.lower())
    region = login.region or (match and match["region"])
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise ConfigError(
            f"the AWS region of the broker {host} is unknown",
            hint="The broker's name does not contain the region: set AWS_REGION in the environment "
            "of the driver and, with spark.executorEnv.AWS_REGION, of the executors.",
        )
    return region


@dataclass(frozen=True, slots=True)
class MskIamSource(TokenSource):
    """See `TokenSource`."""

    login: MskIamLogin
    region: str

    @property
    def cache_key(self) -> Hashable:
        """See `TokenSource`.

        The key changes with AWS's variables and files: a notebook can set other credentials after
        a broker has rejected the first ones.
        """
        variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
        files = (variables.get(name) or default for name, default in _AWS_FILES.items())
        stamps = file_stamps(map(os.path.expanduser, files))
        return self, hash(frozenset(variables.items())), stamps

    def fetch(self) -> Token:
        """Sign a token. The network is used only if the credentials are not local.

        Raises:
            AuthenticationError: no credentials are found, or the role cannot be assumed.
        """
        try:
            provider = _FixedCredentials(self._credentials())
            sign = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider
            text, expires_ms = sign(self.region, provider)
        except (BotoCoreError, ClientError, ValueError, OSError) as error:
            raise AuthenticationError(
                f"no AWS credentials for the login: {quoted(str(error))}",
                hint="Check awsProfileName, awsRoleArn, and the output of `aws sts "
                "get-caller-identity` on this host.",
            ) from error
        return Token(text, expires_ms)

    def _credentials(self) -> Credentials:
        session = boto3.Session(profile_name=self.login.profile)
        if self.login.role_arn is not None:
            return self._assume_role(session, self.login.role_arn)
        credentials = session.get_credentials()
        if credentials is None:
            raise ValueError("none in the environment, the profile or the instance metadata")
        if self.login.debug_credentials:
            identity = self._sts_client(session).get_caller_identity()
            _LOG.info("AWS_MSK_IAM: signed as %s", identity.get("Arn"))
        return credentials

    def _assume_role(self, session: boto3.Session, role_arn: str) -> Credentials:
        response = self._sts_client(session).assume_role(
            RoleArn=role_arn, RoleSessionName=self.login.role_session_name or _ROLE_SESSION
        )
        if self.login.debug_credentials:
            _LOG.info("AWS_MSK_IAM: signed as %s", response["AssumedRoleUser"]["Arn"])
        credentials = response["Credentials"]
        return Credentials(
            credentials["AccessKeyId"], credentials["SecretAccessKey"], credentials["SessionToken"]
        )

    def _sts_client(self, session: boto3.Session) -> Any:
        region = self.login.sts_region or self.region
        return session.client("sts", region_name=region, config=_BOUNDED)


class _FixedCredentials(CredentialProvider):  # type: ignore[misc]  # botocore has no types
    """Provider that returns the given credentials. The signer accepts only a provider.

    Args:
        credentials: the credentials to sign with.
    """

    def __init__(self, credentials: Credentials) -> None:
        super().__init__()
        self._credentials = credentials

    def load(self) -> Credentials:
        """See `CredentialProvider`."""
        return self._credentials
