"""A PostgreSQL server for a while, in a folder of its own, on a free port of the loopback address."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

PROGRAMS = max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)
"""Where Debian puts the newest server's programs; None: it is not installed."""


class TemporaryServer:
    """A cluster in `folder`, which another user must be able to reach: PostgreSQL refuses to run as root. RuntimeError, with the
    end of the log, where a program of the server fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync")

    @property
    def url(self) -> str:
        """The address of a database that exists."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Returns when it answers."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories=''"
        self._run("pg_ctl", "--wait", f"--log={self.folder}/log", f"--options={options}", "start")

    def stop(self) -> None:
        """At once: what it holds is not needed any more."""
        self._run("pg_ctl", "--mode=immediate", "stop")

    def kill(self) -> None:
        """kill -9 of the server and all its processes."""
        main = int((self.folder / "postmaster.pid").read_text().split()[0])
        children = subprocess.run(["pgrep", "-P", str(main)], capture_output=True, text=True, check=False)
        for pid in [main, *map(int, children.stdout.split())]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.5)  # until they are gone
        # in a container nobody may bury the main process, which then seems alive
        (self.folder / "postmaster.pid").unlink()

    def _run(self, program: str, *arguments: str) -> None:
        if PROGRAMS is None:
            raise RuntimeError("PostgreSQL is not installed (Debian: apt install postgresql).")
        command = [str(PROGRAMS / program), f"--pgdata={self.folder}", *arguments]
        if os.getuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        done = subprocess.run(
            command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program}: {log.read_text()[-2000:] if log.exists() else 'no log'}")
