"""A Kerberos realm on loopback: MIT's KDC as an unprivileged process, and keytabs."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.support.java import tied
from tools.support.kafka_node import free_port
from tools.support.waiting import poll

REALM = "TEST.LOCAL"
SERVICE = "kafka"
HOST = "localhost"
_START_TIMEOUT_S = 30
_CLIENTS_FILE = """[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    forwardable = false
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
[domain_realm]
    {host} = {realm}
"""
_KDC_FILE = """[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = 127.0.0.1:{port}
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        acl_file = {folder}/kadm5.acl
        max_life = 1d
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    default = FILE:{folder}/kdc.log
"""


class KerberosError(RuntimeError):
    """A Kerberos program is missing or failed; the message contains its output."""


class Kdc:
    """A realm with a principal and a keytab for the broker and for each user.

    The kernel kills the process when the thread that started it ends.
    """

    def __init__(self, folder: Path, users: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._users = tuple(users)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.config = folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables for Kerberos programs and libraries of this realm."""
        return {"KRB5_CONFIG": str(self.config), "KRB5_KDC_PROFILE": str(self._folder / "kdc.conf")}

    @property
    def service_keytab(self) -> Path:
        """Return the path of the broker's keytab."""
        return self.keytab(SERVICE)

    @property
    def service_principal(self) -> str:
        return f"{SERVICE}/{HOST}@{REALM}"

    def keytab(self, user: str) -> Path:
        """Return the keytab path of a user, even if the user does not exist."""
        return self._folder / f"{user}.keytab"

    def start(self) -> None:
        """Create the realm, start the KDC and wait until it responds."""
        placeholders = {"realm": REALM, "folder": self._folder, "port": self._port, "host": HOST}
        self.config.write_text(_CLIENTS_FILE.format(**placeholders))
        (self._folder / "kdc.conf").write_text(_KDC_FILE.format(**placeholders))
        (self._folder / "kadm5.acl").touch()
        self._run("kdb5_util", "create", "-s", "-P", "master-key", "-r", REALM)
        principals = {SERVICE: f"{SERVICE}/{HOST}", **{user: user for user in self._users}}
        for name, principal in principals.items():
            self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-q", f"ktadd -k {self.keytab(name)} {principal}")
        self._launch()

    def log_in(self, user: str, cache: Path) -> None:
        """Fill a ticket cache with kinit."""
        self._run("kinit", "-k", "-t", str(self.keytab(user)), "-c", f"FILE:{cache}", user)

    def close(self) -> None:
        """Kill the KDC; can be called more than once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _launch(self) -> None:
        with (self._folder / "krb5kdc.out").open("ab") as log:
            process = self._process = subprocess.Popen(
                tied([_program("krb5kdc"), "-n"]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        poll(lambda: process.poll() is not None or self._is_listening(), _START_TIMEOUT_S)
        if not self._is_listening():
            raise KerberosError(f"the KDC did not start:\n{self._log_end()}")

    def _is_listening(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
            return True
        return False

    def _log_end(self) -> str:
        names = ("krb5kdc.out", "kdc.log")
        paths = [self._folder / name for name in names]
        return "\n".join(path.read_text()[-2000:] for path in paths if path.exists())

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_program(program), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env={**os.environ, **self.environment},
            timeout=60,
            check=False,
        )
        # kadmin.local exits with 0 even if its query fails.
        if done.returncode or "while" in done.stderr:
            raise KerberosError(f"{program} {arguments[-1]}:\n{done.stdout}{done.stderr}")


def _program(name: str) -> str:
    """Return the full path; on Debian, the KDC's programs are not on the PATH of users."""
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    if program is None:
        raise KerberosError(f"{name} is missing: apt install krb5-kdc krb5-admin-server krb5-user")
    return program
