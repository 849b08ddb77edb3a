"""Check the machine: `needs.py java` for the demo, `needs.py java debian` for the tests.

It runs before any package is installed, so it only uses the standard library.
"""

import os
import re
import shutil
import subprocess
import sys

LEAST_JAVA = 17
DEBIAN_PACKAGES = {
    "kcat": "kcat",
    "redis-server": "redis-server",
    "openssl": "openssl",
    "krb5kdc": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "kinit": "krb5-user",
    # These packages are needed to compile gssapi.
    "gcc": "build-essential",
    "krb5-config": "libkrb5-dev",
    "python3-config": "python3-dev",
}
"""The Debian package that provides each command."""


def find_java() -> str | None:
    """Return the path of Spark's `java`: in JAVA_HOME if it is set, otherwise on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")


def java_problem() -> str | None:
    """Return a message if Java is missing or too old, otherwise None."""
    java = find_java()
    needed = f"Java {LEAST_JAVA} or newer is needed: install a JRE and put `java` on the PATH"
    if java is None:
        return f"{needed} (none was found)."
    printed = subprocess.run(
        [java, "-version"], capture_output=True, text=True, check=False, encoding="utf-8"
    ).stderr
    matched = re.search(r'version "(?:1\.)?(\d+)', printed)
    if matched is None or int(matched.group(1)) < LEAST_JAVA:
        return f"{needed} ({java} is version {matched.group(1) if matched else 'unknown'})."
    return None


def debian_problem() -> str | None:
    """Install missing Debian packages as root; return a message if this is impossible, or None."""
    missing = _missing()
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(missing)
        missing = _missing()
    if not missing:
        return None
    names = " ".join(missing)
    return f"The tests need the Debian packages: {names}; run `apt-get install {names}` as root."


def _missing() -> list[str]:
    # Debian's folder for service programs can be missing from users' PATH.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    packages = DEBIAN_PACKAGES.items()
    return [package for command, package in packages if not shutil.which(command, path=path)]


def _install(packages: list[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
        subprocess.run(["apt-get", *step], stdin=subprocess.DEVNULL, env=environment, check=False)


def main() -> None:
    """Print missing requirements; exit with status 1 if there are any."""
    checks = {"java": java_problem, "debian": debian_problem}
    problems = [problem for name in sys.argv[1:] if (problem := checks[name]())]
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
