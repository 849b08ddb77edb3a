"""The package can be imported on systems without Unix modules."""

import subprocess
import sys

import pytest

CODE = """
import mmap, os, pkgutil, sys
sys.modules["fcntl"] = sys.modules["resource"] = None
for module, name in ((os, "O_NOFOLLOW"), (os, "O_CLOEXEC"), (os, "pread"), (mmap, "PROT_READ")):
    delattr(module, name)
import spark_kafka_sink
for module in pkgutil.walk_packages(spark_kafka_sink.__path__, "spark_kafka_sink."):
    try:
        if not module.name.endswith("__main__"):
            __import__(module.name)
    except ModuleNotFoundError as error:
        if error.name != "gssapi":  # An extra that needs a C library.
            raise
print(len(sys.modules))
"""


@pytest.mark.deep
def test_no_module_requires_unix_modules() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300
