"""Read Protobuf schemas from options, files and registries, on the driver.

A schema is `.proto` text, a serialized descriptor, or a descriptor in base64. Text is compiled by
`protoc`. The result is a descriptor set in base64 that contains the imports.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ConfigError, error_text
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.common.optional_dependencies import require_extra
from spark_kafka_sink.formats.protobuf import protobuf_descriptor as descriptor
from spark_kafka_sink.formats.protobuf.protobuf_files import (
    ProtoFile,
    declares_message,
    encode_descriptor_set,
    files_of,
    main_file,
    parse_files,
)
from spark_kafka_sink.formats.protobuf.protobuf_wire import sized_field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Content = str | bytes

_BUILT_IN = {
    "google/protobuf": "any api descriptor duration empty field_mask source_context struct "
    "timestamp type wrappers",
    "google/type": "calendar_period color date datetime dayofweek decimal expr fraction interval "
    "latlng money month phone_number postal_address quaternion timeofday",
    "confluent": "meta",
    "confluent/type": "decimal variant",
}
BUILT_IN = frozenset(
    f"{folder}/{name}.proto" for folder, names in _BUILT_IN.items() for name in names.split()
)
"""The files that registries provide (`ProtobufSchema.KNOWN_DEPENDENCIES` of Confluent)."""
_PACKAGES = {"google/": "", "confluent/": "confluent_kafka.schema_registry."}
"""Python packages that contain descriptors of well-known files, by prefix."""
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"|(?P<word>[A-Za-z_][\w.]*)|(?P<sign>\S)",
    re.DOTALL,
)
"""A comment, a text, a word, or another character."""
_IMPORT_KINDS = {"public", "weak", "option"}
_NAME = re.compile(r"(?![-@/])(?!.*\.\.)[^\x00-\x1f\x7f\\]+")
"""File names that stay below a folder, and that protoc does not take for options."""
_NO_NAME = ""
"""Name of the main file until the names of its imports are known."""
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*")
_WARNING = re.compile(r"WARNING|W\d{4} |.*: warning: ")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0e-\x1f]")
_TIMEOUT_S = 120
_MAX_CHARS = 1_000
"""Maximum length of a message of protoc, in characters."""


class CompiledSchema(NamedTuple):
    """A schema with its imports: as a descriptor set in base64, and the files that are texts."""

    descriptors: str
    texts: tuple[tuple[str, str], ...]
    """Names and texts."""


def compile_descriptor_set(content: Content, load: Callable[[str], Content | None]) -> str:
    """Return a schema with its imports as a descriptor set in base64; see `compile_schema`."""
    return compile_schema(content, load).descriptors


def compile_schema(
    content: Content, load: Callable[[str], Content | None], message: str | None = None
) -> CompiledSchema:
    """Read a schema with its imports.

    Args:
        content: the main file, or a descriptor set that contains it.
        load: returns an imported file, or None if it is not found.
        message: the full name of a message in the main file of a descriptor set; None if that is
            the last file.

    Raises:
        ConfigError: the schema cannot be read, or protoc or the `protobuf` extra is missing.
    """
    texts: dict[str, str] = {}
    files: dict[str, ProtoFile] = {}

    def add(name: str, content: Content) -> None:
        """Add a file and its imports."""
        parsed = _parse_content(content, message if name == _NO_NAME else None)
        if isinstance(parsed, str):
            texts[name] = parsed
            imports = _imports_of(parsed)
        else:
            # A descriptor from a registry has a name of the registry's choice.
            *dependencies, main = parsed
            files.update({file.name: file for file in dependencies})
            files[name] = _with_name(main, name)
            imports = [imported for file in parsed for imported in file.imports]
        for imported in imports:
            if imported not in texts and imported not in files:
                imported_content = load(imported)
                if imported_content is not None:
                    add(imported, imported_content)

    add(_NO_NAME, content)
    name = _unused_name(texts, files)
    if _NO_NAME in texts:
        texts[name] = texts.pop(_NO_NAME)
    else:
        files[name] = _with_name(files.pop(_NO_NAME), name)
    if texts:
        files |= _compile_texts(texts, files)
    descriptors = encode_descriptor_set(file.data for file in _with_imports(name, files))
    return CompiledSchema(descriptors, tuple(texts.items()))


def _main_last(files: list[ProtoFile], message: str | None) -> list[ProtoFile]:
    """Return the main file of a set, after the imports that the set contains.

    It is the last file, unless only another one declares the message.
    """
    main = files[-1]
    if message is not None and not declares_message(main_file(files), message):
        main = next((file for file in files if declares_message(file, message)), main)
    by_name = {file.name: file for file in files}
    return [file for file in _with_imports(main.name, by_name) if file.name in by_name]


def _unused_name(texts: Mapping[str, str], files: Mapping[str, ProtoFile]) -> str:
    """Return a name for the main file that no other file has or imports."""
    imports = {imported for text in texts.values() for imported in _imports_of(text)}
    imports.update(imported for file in files.values() for imported in file.imports)
    # `protoc` reads files and folders, whose names can be the same in another case.
    used = {path.partition("/")[0].casefold() for path in (*imports, *files)}
    name = "schema.proto"
    while name in used:
        name = f"_{name}"
    return name


def add_known_imports(files: list[ProtoFile]) -> list[ProtoFile]:
    """Return the main file after its imports, including those that registries provide."""
    return _with_imports(files[-1].name, {file.name: file for file in files})


def is_well_known(name: str) -> bool:
    """Return True if registries or Python packages provide a file."""
    return name in BUILT_IN or _find_well_known(name) is not None


def _parse_content(content: Content, message: str | None) -> str | list[ProtoFile]:
    """Return the text of a `.proto` file, or the files of a descriptor; see `compile_schema`.

    Raises:
        ConfigError: the content is neither of them.
    """
    try:
        if isinstance(content, bytes):
            text = content.decode("utf-8-sig", errors="replace")
            # Descriptors contain control characters, which precede names and numbers.
            if _CONTROL_CHARACTER.search(text):
                return _main_last(parse_files(content), message)
            content = text
        is_text = not _BASE64.fullmatch(content)
        return content if is_text else _main_last(files_of(content), message)
    except (ValueError, TypeError, IndexError):
        raise ConfigError(
            "the Protobuf schema is neither .proto text nor a descriptor",
            hint="Create one with `protoc --include_imports --descriptor_set_out=FILE`.",
        ) from None


def _with_imports(main: str, files: Mapping[str, ProtoFile]) -> list[ProtoFile]:
    """Return the files that a file needs, each after its imports. Unknown imports are left out."""
    ordered: dict[str, ProtoFile | None] = {}

    def add(name: str) -> None:
        if name in ordered:
            return
        file = files.get(name) or _find_well_known(name)
        ordered[name] = None  # A cycle of imports must not end in a recursion.
        for imported in () if file is None else file.imports:
            add(imported)
        del ordered[name]
        ordered[name] = file

    add(main)
    return [file for file in ordered.values() if file is not None]


@lru_cache(maxsize=256)
def _find_well_known(name: str) -> ProtoFile | None:
    """Return a file of which a Python package contains the descriptor, or None."""
    prefix = next((prefix for prefix in _PACKAGES if name.startswith(prefix)), None)
    if prefix is None or not name.endswith(".proto") or not _NAME.fullmatch(name):
        return None
    module = name.removesuffix(".proto").replace("/", ".").replace("-", "_")
    # Older releases of Confluent's client have confluent/type/* in another folder.
    for candidate in dict.fromkeys((module, module.replace("confluent.type.", "confluent.types."))):
        try:
            generated = import_module(f"{_PACKAGES[prefix]}{candidate}_pb2").DESCRIPTOR
        except Exception:  # noqa: BLE001, S112 - generated code rejects other runtimes
            continue
        (file,) = parse_files(generated.serialized_pb)
        return _with_name(file, name)
    return None


def _with_name(file: ProtoFile, name: str) -> ProtoFile:
    if file.name == name:
        return file
    # A second name replaces the first.
    return file._replace(
        name=name, data=file.data + sized_field(descriptor.FILE_NAME, name.encode())
    )


def _compile_texts(
    texts: Mapping[str, str], files: Mapping[str, ProtoFile]
) -> dict[str, ProtoFile]:
    """Return the descriptors of `.proto` texts and of their imports; `files` are other imports.

    Raises:
        ConfigError: protoc is not installed, or rejects a text.
    """
    imports = {name for text in texts.values() for name in _imports_of(text)}
    known = [file for name in sorted(imports) for file in _with_imports(name, files)]
    known_set = b"".join(
        sized_field(descriptor.SET_FILE, data)
        for data in {file.name: file.data for file in known}.values()
    )
    data = _run_protoc(tuple(texts.items()), known_set)
    return {file.name: file for file in parse_files(data)}


def _imports_of(text: str) -> list[str]:
    """Return the names of the files that a `.proto` text imports."""
    names: list[str] = []
    name: str | None = None  # None outside of a statement `import`
    for token in _TOKEN.finditer(text):
        if token["text"] is not None:
            name = None if name is None else name + token["text"][1:-1]
        elif token["word"] == "import":
            name = ""
        elif token["word"] is not None or token["sign"] is not None:
            names += [name] if name else []
            name = name if token["word"] in _IMPORT_KINDS else None
    return names


@lru_cache(maxsize=16)
def _run_protoc(texts: tuple[tuple[str, str], ...], imports: bytes) -> bytes:
    """Return the descriptor set of `.proto` texts. `imports` is a set of other files."""
    require_extra("protobuf", "a Protobuf schema as text")
    with TemporaryDirectory(prefix="kafkaprod-proto-") as folder:
        for name, text in texts:
            _write_text(Path(folder, "texts"), name, text)
        Path(folder, "imports").write_bytes(imports)
        options = [
            "--descriptor_set_in=../imports",
            "--descriptor_set_out=../set",
            "--proto_path=.",
        ]
        command = [sys.executable, "-m", "grpc_tools.protoc", "--include_imports", *options]
        result = _run_command([*command, *(name for name, _ in texts)], Path(folder, "texts"))
        if result.returncode:
            raise ConfigError(
                f"protoc rejects the Protobuf schema: {_protoc_errors(result.stderr)}",
                hint="Correct the schema. Imported files must be in folders above the schema file, "
                "or in a descriptor set created with `protoc --include_imports`.",
            )
        return Path(folder, "set").read_bytes()


def _write_text(folder: Path, name: str, text: str) -> None:
    """Write a file below the folder; raise ConfigError if its name does not allow this."""
    rejected = ConfigError(
        f"protoc cannot read a Protobuf file with the name {safe_repr(name)}",
        hint="Rename it, or use a descriptor set created with `protoc --include_imports`.",
    )
    if not _NAME.fullmatch(name):
        raise rejected
    path = folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (OSError, ValueError):
        raise rejected from None


def _run_command(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run protoc; raise ConfigError if it does not start or end."""
    try:
        return subprocess.run(  # noqa: S603 - the caller has checked the file names
            command,
            cwd=folder,
            # Libraries of a Spark job can be on paths that only this process has.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(
            f"protoc cannot be run: {error_text(error)}",
            hint="Use a descriptor set created with `protoc --include_imports`.",
        ) from error


def _protoc_errors(text: str) -> str:
    """Return the errors of protoc, without its warnings and without full stops."""
    lines = (line.strip().rstrip(".") for line in text.splitlines())
    return "; ".join(line for line in lines if line and not _WARNING.match(line))[:_MAX_CHARS]
