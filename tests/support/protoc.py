"""Compile `.proto` files with Google's compiler, and read records with Google's runtime."""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGES = Path(descriptor_pb2.__file__).parents[2]
"""The folder that contains the `.proto` files of googleapis-common-protos."""


def compile_files(
    texts: Mapping[str, str], names: Iterable[str] = ()
) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """Return the descriptors of texts, of installed files and of their imports, in their order."""
    with TemporaryDirectory() as folder:
        for name, text in texts.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"-I{PACKAGES}"]
        command += ["--include_imports", f"--descriptor_set_out={folder}/set", *texts, *names]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        data = Path(folder, "set").read_bytes()
    return {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(data).file}


def message_class(files: Iterable[descriptor_pb2.FileDescriptorProto], name: str) -> Any:
    """Return Google's class of a message; each file follows its imports."""
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
