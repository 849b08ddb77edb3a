"""Schemas to register, and schemas in a registry."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_kafka_sink.common.errors import SchemaRegistryError
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.json.json_references import JsonReferences

SCHEMA_TYPES = {Format.AVRO: "AVRO", Format.JSON: "JSON", Format.PROTOBUF: "PROTOBUF"}
"""The registry's names of formats."""
_MAGIC_GUID = b"\x01"


@dataclass(frozen=True, slots=True)
class CandidateSchema:
    """A schema to register or look up, as text."""

    format: Format
    text: str
    texts: tuple[tuple[str, str], ...] = ()
    """See `UnregisteredSchema.texts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema in the registry."""

    id: int
    guid: bytes | None
    """The 16 bytes of the GUID, or None if the registry does not support GUIDs."""
    text: str
    subject: str
    references: JsonReferences = field(default_factory=JsonReferences)
    """The schemas to which a JSON Schema refers, directly or not."""

    @property
    def prefix(self) -> bytes:
        """The five bytes before each payload."""
        return b"\0" + self.id.to_bytes(4, "big")

    @property
    def header_value(self) -> bytes:
        """The value of the header that identifies the schema.

        Raises:
            SchemaRegistryError: the registry does not support GUIDs.
        """
        if self.guid is None:
            raise missing_guid_error(self.subject)
        return _MAGIC_GUID + self.guid


def missing_guid_error(subject: str) -> SchemaRegistryError:
    """Return the error for a registry without GUIDs, which headers with the schema's id need."""
    return SchemaRegistryError(
        f"the schema registry returns no GUID for the schema of subject {subject}, which "
        "HeaderSchemaIdSerializer needs",
        hint="Use a registry with GUIDs (Confluent Platform 8.0) without use.schema.id, or the "
        "default PrefixSchemaIdSerializer.",
    )
