"""Test the archives of a release like a new user: `make release-check`.

It builds the sdist, builds the wheel from the sdist, and installs the wheel with the extras `spark`
and `cli` in an empty environment. In this environment, it runs the README's batch example, with the
broker of `kafkaprod broker`.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README_ADDRESS = "localhost:9092"
BATCH_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""The README's first example in Python."""
CHECK_REPORT = """
import json, pathlib
report = json.loads(pathlib.Path("report.json").read_text())
assert report["status"] == "succeeded", report["status"]
print(f"release check: {report['records']:,} records acknowledged")

# Java reads its JAR files until it exits.
from pyspark import SparkContext
java = SparkContext._gateway.proc
java.stdin.close()
java.wait()
"""


def main() -> None:
    """Run the check until a step fails."""
    with tempfile.TemporaryDirectory(prefix="kafkaprod-release-") as name:
        folder = Path(name)
        python = install(build_wheel(folder), folder / "environment")
        with running_broker(python, folder) as address:
            run_example(python, folder, address)


def build_wheel(folder: Path) -> Path:
    """Build the sdist, and the wheel from the sdist; return the wheel's path."""
    run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)], ROOT)
    options = ["--quiet", "--no-deps", "--no-build-isolation", str(next(folder.glob("*.tar.gz")))]
    run([sys.executable, "-m", "pip", "wheel", *options], folder)
    return next(folder.glob("*.whl"))


def install(wheel: Path, environment: Path) -> Path:
    """Create an environment with the wheel; return the path of its Python interpreter."""
    run([sys.executable, "-m", "venv", str(environment)], ROOT)
    python = environment / "bin" / "python"
    run([str(python), "-m", "pip", "--quiet", "install", f"{wheel}[spark,cli]"], wheel.parent)
    return python


@contextmanager
def running_broker(python: Path, folder: Path) -> Iterator[str]:
    """Start the broker from the wheel on a free port; yield its address."""
    command = [str(python.with_name("kafkaprod")), "broker", "--topic", "events:4", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as broker:
        try:
            lines = iter(broker.stdout or ())
            yield next(m[0] for line in lines if (m := re.search(r"127\.0\.0\.1:\d+", line)))
        finally:
            broker.terminate()


def run_example(python: Path, folder: Path, address: str) -> None:
    """Run the README's batch example, and check its report."""
    example = BATCH_EXAMPLE.search((ROOT / "README.md").read_text(encoding="utf-8"))
    if example is None:
        raise SystemExit("README.md has no Python example")
    job = folder / "job.py"
    job.write_text(example[1].replace(README_ADDRESS, address) + CHECK_REPORT, encoding="utf-8")
    run([str(python), str(job)], folder, PYSPARK_PYTHON=str(python), SPARK_LOCAL_IP="127.0.0.1")


def run(command: list[str], folder: Path, **variables: str) -> None:
    """Print and run a command; raise CalledProcessError if it fails."""
    print("$", *command, flush=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=folder, env={**environment, **variables}, check=True)


if __name__ == "__main__":
    main()
