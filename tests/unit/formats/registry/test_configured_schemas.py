"""Schemas in files."""

from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.formats import Format, PartFormat
from spark_kafka_sink.formats.registry.configured_schemas import configured_schema


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize(
    ("format_", "text"),
    [
        (Format.PROTOBUF, 'syntax = "proto3"; message E /* Ä */ {}'),
        (Format.AVRO, '{"type": "record", "name": "E", "doc": "Ä", "fields": []}'),
        (Format.JSON_CONFLUENT, '{"title": "E", "description": "Ä"}'),
    ],
)
def test_encodings_of_schema_files(
    format_: Format, text: str, encoding: str, tmp_path: Path
) -> None:
    path = tmp_path / "schema"
    bom = "\ufeff" if encoding == "utf-16-le" else ""
    path.write_text(bom + text, encoding=encoding)
    source = configured_schema(PartFormat(part="value", format=format_, schema_file=str(path)))
    assert source is not None
    assert source.name == "E"


@pytest.mark.parametrize("format_", [Format.AVRO, Format.JSON_CONFLUENT])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_json_without_byte_order_mark(format_: Format, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "schema"
    text = '{"type": "record", "name": "E", "title": "E", "doc": "Ä", "fields": []}'
    path.write_text(text, encoding=encoding)
    source = configured_schema(PartFormat(part="value", format=format_, schema_file=str(path)))
    assert source is not None
    assert source.name == "E"


def test_schema_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "schema"
    path.write_text('{"title": "Ä"}', encoding="latin-1")
    with pytest.raises(ConfigError, match="cannot read: it is not UTF-8"):
        configured_schema(PartFormat(part="value", format=Format.JSON, schema_file=str(path)))


@pytest.mark.parametrize("path", ["main.proto", "./main.proto", "../sub/main.proto"])
def test_imports_of_a_relative_path_are_above_the_working_directory(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("common", "sub"):
        (tmp_path / name).mkdir()
    (tmp_path / "common" / "c.proto").write_text('syntax = "proto3"; message C { string x = 1; }')
    main = 'syntax = "proto3"; import "common/c.proto"; message M { C c = 1; }'
    (tmp_path / "sub" / "main.proto").write_text(main)
    monkeypatch.chdir(tmp_path / "sub")
    schema = configured_schema(PartFormat(part="value", format=Format.PROTOBUF, schema_file=path))
    assert schema is not None
    assert schema.message == "M"
