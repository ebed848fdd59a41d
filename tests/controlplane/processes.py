"""Server processes for tests: started, stopped, frozen, killed, and never left behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from . import watchdog as watchdog_script

_WATCHDOG_SECONDS = 10.0


class Watchdog:
    """Kills the processes it was told of, and removes `directory`, once this process is gone."""

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog_script.__file__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            process_group=0,  # an interrupt from the terminal is for the test process only
        )

    def add(self, pid: int) -> None:
        """Have `pid` killed when this process is gone."""
        self._tell(f"add {pid}")

    def forget(self, pid: int) -> None:
        """Leave `pid` alone; it has ended."""
        self._tell(f"forget {pid}")

    def close(self) -> None:
        """Have done now what would be done when this process is gone."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(_WATCHDOG_SECONDS)

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        # A watchdog that has died must not keep its processes from being stopped in the ordinary way.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


class ServerProcess:
    """One running server; its output goes to `log_file`."""

    def __init__(self, command: Sequence[str], log_file: Path, watchdog: Watchdog) -> None:
        self.log_file = log_file
        self._watchdog = watchdog
        with log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                process_group=0,
            )
        watchdog.add(self._process.pid)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended; a frozen one has not."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The process's exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def log(self) -> str:
        """Return what this process has written."""
        with self.log_file.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def freeze(self) -> None:
        """Stop the process where it is; its sockets stay open and go unanswered."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process at once, and wait until it is gone."""
        self._process.kill()
        self._process.wait()
        self._watchdog.forget(self.pid)

    def stop(self, grace_seconds: float) -> None:
        """Ask the process to end, end it after `grace_seconds`, and wait until it is gone."""
        self.thaw()
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_seconds)
        self.kill()


def free_port() -> int:
    """Return a loopback port that nothing listens on, for a moment at least.

    It lies below the range that the system gives to outgoing connections. Otherwise a client that reconnects to a
    server that is down could be given the server's own port, and the server could not come back to it.
    """
    for port in random.sample(range(15_000, _first_outgoing_port()), 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no free port on 127.0.0.1")


def _first_outgoing_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        return 32_768
    return first if first > 16_000 else 32_768


def _environment() -> dict[str, str]:
    # etcd reads a variable for each of its flags.
    return {name: value for name, value in os.environ.items() if not name.startswith("ETCD_")}
