"""A private sshd on loopback, so that a rehearsal and the tests reach this machine by real SSH.

Its keys, configuration and log are its own; it admits one user by one key, listens on 127.0.0.1
only, and ends with the block or with our process, whichever is first.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from kvgate.errors import CommandError, HarnessError
from kvgate.transport import hostkeys
from kvgate.transport.leashed import Process
from kvgate.transport.local import LocalTransport

ADDRESS = "127.0.0.1"
_FOREVER_S = 400 * 24 * 3600.0
_ANSWER_S = 15.0
_TRIES = 5
_MOMENT_S = 1.0
_LOG_BYTES = 256 * 1024

# SHLVL: bash as login shell reads ~/.bashrc for a command that sshd starts, unless it believes it
# is nested; whatever stands there (0.7 s of pyenv was seen) is no part of what is rehearsed.
# PATH: an ordinary user's has no sbin, where nvme, smartctl and ethtool are.
_CONFIG = """\
ListenAddress {address}:{port}
HostKey "{folder}/host_key"
AuthorizedKeysFile "{tokens}/client_key.pub"
PidFile none
AllowUsers {user}
PermitRootLogin prohibit-password
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM {pam}
StrictModes no
UseDNS no
PrintMotd no
PrintLastLog no
PermitUserRC no
X11Forwarding no
AllowAgentForwarding no
AllowTcpForwarding local
PermitOpen {address}:*
SetEnv SHLVL=1 "PATH={path}"
MaxSessions 500
MaxStartups 500
LogLevel INFO
"""


class PrivateSshd:
    """An sshd of our own in `folder` (made if need be); use as a context manager.

    It listens on `port`, or on any free one where that is 0. With `command` (a line for the
    account's shell) it runs nothing else, whatever a client sends: a device's own command line.
    Raises HarnessError where the programs are missing, where this account can't be logged in to,
    or where sshd does not answer; the message holds the end of its log.
    """

    def __init__(self, folder: Path, *, port: int = 0, command: str = "") -> None:
        self._folder = folder
        self._forced = f"ForceCommand {command}\nPermitTTY no\n" if command else ""
        self._account = pwd.getpwuid(os.geteuid())
        self._local = LocalTransport("sshd")
        self._process: Process | None = None
        self._wanted = port
        self.port = 0

    def __enter__(self) -> PrivateSshd:
        """1. Check.  2. Make keys.  3. Start on a free port.  4. Wait until it answers."""
        sshd = _program("sshd", "openssh-server")  # 1
        keygen = _program("ssh-keygen", "openssh-client")
        self._check_shell()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # 2
        for name in ("host_key", "client_key"):
            self._make_key(keygen, name)
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, parents=True, exist_ok=True)
        for _ in range(_TRIES):  # another process may take the port between our look and its use
            self._start(sshd)  # 3
            if self._answers():  # 4
                self._write_known_hosts()
                return self
            self._end()
        raise HarnessError(f"sshd found no free port in {_TRIES} tries")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End its sessions, then the sshd itself, by pid."""
        self._end()

    def host_entry(self) -> dict[str, object]:
        """Return the keys of an inventory's host that reach it; roles and the rest are to add."""
        return {
            "transport": "ssh",
            "address": ADDRESS,
            "port": self.port,
            "user": self._account.pw_name,
            "key": {"file": str(self._folder / "client_key")},
            "known_hosts": str(self._folder / "known_hosts"),
        }

    def _check_shell(self) -> None:
        shell = self._account.pw_shell or "/bin/sh"
        if Path(shell).name in ("nologin", "false") or not os.access(shell, os.X_OK):
            raise HarnessError(
                f"user '{self._account.pw_name}' can't be logged in to: the login shell is {shell}",
                hint="run kvgate as a user with a real login shell",
            )

    def _make_key(self, keygen: str, name: str) -> None:
        path = self._folder / name
        if path.exists():
            return
        argv = [keygen, "-q", "-t", "ed25519", "-N", "", "-C", f"kvgate {name}", "-f", str(path)]
        made = subprocess.run(
            argv, capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL
        )
        if made.returncode != 0:
            raise HarnessError(f"ssh-keygen: {made.stderr.decode('utf-8', 'replace').strip()}")

    def _start(self, sshd: str) -> None:
        self.port = _free_port(self._wanted)
        config = self._folder / "sshd_config"
        folder = str(self._folder.resolve())
        config.write_text(
            _CONFIG.format(
                address=ADDRESS,
                port=self.port,
                folder=folder,
                tokens=folder.replace("%", "%%"),
                user=self._account.pw_name,
                pam="yes" if _locked(self._account.pw_name) else "no",
                path=_search_path().replace('"', ""),
            )
            + self._forced
        )
        self._process = self._local.start(
            [sshd, "-D", "-e", "-f", str(config.resolve())],
            deadline_s=_FOREVER_S,
            cap_bytes=_LOG_BYTES,
        )

    def _answers(self) -> bool:
        """Wait for its banner; False if the port was taken; HarnessError with the log's end."""
        until = time.monotonic() + _ANSWER_S
        while self._process is not None and not self._process.poll():
            with (
                contextlib.suppress(OSError),
                socket.create_connection((ADDRESS, self.port), timeout=1) as stream,
            ):
                if stream.recv(4) == b"SSH-" and not self._process.poll():
                    return True
            if time.monotonic() > until:
                raise HarnessError(f"sshd does not answer on port {self.port}: {self._end()}")
            time.sleep(0.01)
        log = self._end()
        if "Address already in use" in log:
            return False
        raise HarnessError(
            f"sshd ended at once: {log}",
            hint=f"see {self._folder}/sshd_config; sshd -t -f names what it does not like",
        )

    def _write_known_hosts(self) -> None:
        keytype, key = (self._folder / "host_key.pub").read_text().split()[:2]
        name = hostkeys.host_name(ADDRESS, self.port)
        (self._folder / "known_hosts").write_text(f"{name} {keytype} {key}\n")

    def _end(self) -> str:
        """End the sessions and the sshd, and return the last lines of its log."""
        if self._process is None:
            return ""
        process, self._process = self._process, None
        _end_sessions(process.pid)
        try:
            result = process.stop() if not process.poll() else process.wait(0)
        except CommandError as err:
            return str(err)
        return " | ".join(result.stderr.decode("utf-8", "replace").strip().splitlines()[-3:])


def _program(name: str, package: str) -> str:
    """Return the full path of `name` (sshd insists on it); sbin is searched for users too."""
    path = shutil.which(name, path=_search_path())
    if path is None:
        raise HarnessError(
            f"'{name}' is not installed; it is needed to reach this machine by SSH",
            hint=f"apt-get install {package}",
        )
    return path


def _search_path() -> str:
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"


def _locked(user: str) -> bool:
    """Tell whether shadow(5) locks the account: without PAM, sshd then admits no key either."""
    if os.geteuid() != 0:
        return False  # such an sshd can't look
    try:
        lines = Path("/etc/shadow").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    fields = [line.split(":") for line in lines]
    return any(field[0] == user and field[1].startswith("!") for field in fields if len(field) > 1)


def _end_sessions(sshd: int) -> None:
    """End the sessions of an sshd: by TERM, and what has not ended in a moment by KILL.

    A TERM that comes just before a session's sshd (9.2) sleeps is noted only at its next packet.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _children(sshd):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        until = time.monotonic() + _MOMENT_S
        while _children(sshd) and time.monotonic() < until:
            time.sleep(0.01)


def _children(parent: int) -> tuple[int, ...]:
    """Return the processes whose parent is `parent`, as /proc has them now."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(stat.read_text("utf-8", "replace").rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
    return tuple(found)


def _free_port(wanted: int) -> int:
    """Return `wanted`, or any free port where it is 0; raises HarnessError if it is taken."""
    with socket.socket() as probe:
        if wanted:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # sshd sets it too
        try:
            probe.bind((ADDRESS, wanted))
        except OSError as err:
            raise HarnessError(
                f"{ADDRESS} port {wanted} can't be listened on: {err.strerror}",
                hint="a run that is resumed needs the port it began with: end what uses it",
            ) from err
        return int(probe.getsockname()[1])
