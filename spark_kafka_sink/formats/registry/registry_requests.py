"""Requests to a schema registry through Confluent's client, with errors that say what to do.

Retries, backoff and caches are those of the client, which `registry_client_settings` configures.
Here, each error that it raises in the end gets a hint.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlencode

from spark_kafka_sink.common.errors import ConfigError, SchemaRegistryError
from spark_kafka_sink.common.optional_dependencies import import_extra
from spark_kafka_sink.config.schema_registry import URL
from spark_kafka_sink.formats.registry.registry_client_settings import client_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from spark_kafka_sink.config.schema_registry import RegistryConfig
    from spark_kafka_sink.config.security.security_config import SaslConfig

_MODULE = "confluent_kafka.schema_registry"
_CONFLICT, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _INVALID = 409, 401, 403, 404, 422
_SERVER_ERROR = 500
_REJECTED = (_INVALID, _SERVER_ERROR)
"""HTTP statuses for a text that the registry cannot parse, although protoc can.

Apicurio and Karapace return status 500 for some texts.
"""
NOT_FOUND_OR_REJECTED = (_NOT_FOUND, *_REJECTED)
"""HTTP statuses of a lookup with a text that the registry does not have, or cannot parse."""
_NO_LEVEL = (_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN)
"""HTTP statuses for a level that is not set, or that the login cannot read."""
_NO_VERSIONS = (_NOT_FOUND, 405)
"""HTTP statuses of a check for a subject without versions, or that the registry does not know."""
_REDIRECTS = (301, 302, 303, 307, 308)
_UNREADABLE = (AttributeError, TypeError, ValueError)
"""Exceptions of the client for a response that is not JSON, or not that of a registry."""
_MAX_MESSAGE_CHARS = 1_500
"""Maximum length of a registry's message, in characters."""
_mock_clients: dict[str, Any] = {}
"""In-memory registries of this process, by URL."""
_MISSING = range(40400, 40500)
"""Error codes of subjects, versions and schemas that do not exist."""
_READ_ONLY = 42205
"""Error code of a subject that accepts no schemas now."""
INCOMPATIBLE_HINT = (
    "Keep the names and types of the columns, make new ones nullable (Avro, Protobuf), or change "
    "the subject's compatibility level."
)
_HINTS = {
    _CONFLICT: INCOMPATIBLE_HINT,
    _UNAUTHORIZED: "Check basic.auth.user.info or the bearer.auth options.",
    _FORBIDDEN: "Grant the login access to the subject.",
    **dict.fromkeys(_REDIRECTS, f"Set {URL} to the URL to which it redirects."),
    **dict.fromkeys(
        _MISSING,
        "Register the schema, or set auto.register.schemas=true; check topic, "
        "subject.name.strategy, schema.name and use.schema.id.",
    ),
    _NOT_FOUND: f"Check the path of {URL}; that of Apicurio is /apis/ccompat/v7.",
    _READ_ONLY: "Change the mode of the registry or subject, or use a registered schema: "
    "auto.register.schemas=false.",
    _INVALID: "The registry rejects the schema: correct it, or value.schema.name.",
}
"""Hints by the registry's error code or HTTP status, for requests that the client gives up."""


class RegistryRequests:
    """Sends requests to a schema registry; Confluent's client retries them and caches responses.

    Args:
        config: address, login and TLS.
        sasl: the brokers' login, which the registry's login can inherit.

    Raises:
        ConfigError: the client is not installed, or the login cannot be read on this host.
    """

    def __init__(self, config: RegistryConfig, sasl: SaslConfig | None = None) -> None:
        self._config = config
        self.library = import_extra("schema-registry", _MODULE, f"option {URL}")
        with ExitStack() as files:
            settings = client_settings(config, sasl, files)
            client = self.library.SchemaRegistryClient.new_client(settings)
        # Each client of mock:// has a separate registry; clients of mock://NAME share a registry,
        # as in Java.
        self.client = _mock_clients.setdefault(config.url, client) if config.is_mock else client

    def close(self) -> None:
        """Close the connections of the client."""
        close = getattr(self.client, "close", None)  # Clients of mock:// have no close().
        if close is not None:
            close()

    def call(self, action: str, request: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Return the result of a request; see `fail`."""
        try:
            return request(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the client raises its HTTP library's errors
            self.fail(action, error)

    def find(
        self,
        action: str,
        request: Callable[..., Any],
        *args: Any,
        absent: Collection[int] = (_NOT_FOUND,),
        **kwargs: Any,
    ) -> Any:
        """Return the result of a request, or None for the HTTP statuses `absent`; see `fail`."""
        try:
            return request(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the client raises its HTTP library's errors
            if _http_status(error) not in absent:
                self.fail(action, error)
            return None

    def register_first(
        self, action: str, subject: str, schemas: Iterable[Any], **settings: Any
    ) -> Any:
        """Register the first of these spellings of a schema that the registry accepts.

        Some registries take two spellings of a type's name for different types, and Apicurio's rule
        of a subject also rejects an earlier version of it.

        Raises:
            SchemaRegistryError: all spellings are invalid or incompatible with earlier versions,
                with the reason of the first spelling. For other errors, see `fail`.
        """
        rejections: list[Exception] = []
        registered = None
        for schema in schemas:
            try:
                registered = self.client.register_schema_full_response(subject, schema, **settings)
            except Exception as error:  # noqa: BLE001 - the client raises its HTTP library's errors
                status = _http_status(error)
                if status not in (_CONFLICT, *_REJECTED):
                    self.fail(action, error)
                rejections.append(error)
                if status != _SERVER_ERROR:
                    lookup, absent = self.client.lookup_schema, NOT_FOUND_OR_REJECTED
                    registered = self.find(
                        action, lookup, subject, schema, absent=absent, **settings
                    )
            if registered is not None:
                break
        if registered is None:
            self.fail(action, rejections[0])
        return registered

    def read_referenced(self, references: Any, fmt: str | None = None) -> dict[str, str]:
        """Return the texts of all schemas to which a schema refers, by the references' names."""
        texts: dict[str, str] = {}

        def collect(references: Any) -> None:
            for reference in references:
                if reference.name not in texts:
                    schema = self.read_version(reference.subject, reference.version, fmt)
                    texts[reference.name] = schema.schema_str
                    collect(schema.references or ())

        collect(references)
        return texts

    def has_referenced(self, references: Any) -> bool:
        """Return True if the registry has all schemas to which a schema refers."""
        for reference in references or ():
            name = reference.subject, reference.version
            schema = self.find(f"read subject {name[0]}", self.client.get_version, *name)
            if schema is None or not self.has_referenced(schema.schema.references):
                return False
        return True

    def compares_all_versions(self, subject: str) -> bool:
        """Return True if the compatibility level of a subject includes earlier versions.

        The check of all versions depends on the level in Confluent's registry, not in Apicurio.
        """
        for subjects in ((subject,), ()):  # Without its own level, the registry's level counts.
            level = self.find(
                "read the compatibility level",
                self.client.get_compatibility,
                *subjects,
                absent=_NO_LEVEL,
            )
            if level not in (None, "NONE"):  # Apicurio returns NONE for a level that is not set.
                return str(level).endswith("_TRANSITIVE")
        return False

    def check_compatibility(
        self, action: str, subject: str, versions: str, schema: Any, **options: Any
    ) -> Any:
        """Return the registry's judgement of a schema, or None if it has no such versions.

        The client requests the reasons, but does not return them, and its older releases cannot
        compare all versions.
        """
        path = f"compatibility/subjects/{quote(subject, safe='')}/{versions}?{urlencode(options)}"
        post = self.client._rest_client.post  # noqa: SLF001
        return self.find(action, post, path, absent=_NO_VERSIONS, body=schema.to_dict())

    def read_version(self, subject: str, version: int, fmt: str | None = None) -> Any:
        """Return the schema of a version."""
        return self.fetch_version(subject, version, fmt).schema

    def fetch_version(self, subject: str, version: int, fmt: str | None = None) -> Any:
        """Return a version with its schema and id."""
        action = f"read version {version} of subject {subject}"
        return self.call(action, self.client.get_version, subject, version, fmt=fmt)

    def fail(self, action: str, error: Exception) -> NoReturn:
        """Raise the error of a failed request.

        Raises:
            SchemaRegistryError: always; it contains the registry's message.
        """
        if isinstance(error, (SchemaRegistryError, ConfigError)):
            raise error
        urls = self._config.url.replace(",", ", ")
        status = _http_status(error)
        reason = printable(str(error) or type(error).__name__)
        if isinstance(error, _UNREADABLE):
            raise SchemaRegistryError(
                f"cannot {action}: the response of {urls} is not that of a schema registry: "
                f"{reason}",
                hint=_HINTS[_NOT_FOUND],
            ) from None
        if status is None:
            raise SchemaRegistryError(
                f"cannot {action}: the schema registry at {urls} cannot be reached: {reason}",
                hint=f"Check {URL}, and that the driver can reach it.",
            ) from None
        code = getattr(error, "error_code", -1)
        message = printable(str(getattr(error, "error_message", "") or "no message"))
        raise SchemaRegistryError(
            f"cannot {action}: the schema registry at {urls} returned HTTP status {status}, code "
            f"{code}: {message}",
            hint=_HINTS.get(code) or _HINTS.get(status),
        ) from None


def _http_status(error: Exception) -> int | None:
    """Return the HTTP status of an error, or None if the registry did not respond."""
    return getattr(error, "http_status_code", None)


def printable(text: str) -> str:
    """Return the start of a text from the registry, on one line and without a full stop."""
    line = "".join(char if char.isprintable() else " " for char in text[:_MAX_MESSAGE_CHARS])
    return line.rstrip(". ")
