"""A shell in which a page's commands are run: real kubectl, helm and flipop against a real API server.

What no part of is here is played: the kubelet (a Deployment of flipop becomes a `flipop run`), and whoever listens
behind ``exec``, ``logs``, ``port-forward`` and ``rollout status`` (the object that they name has to exist). What would
reach beyond this machine, `NOT_RUN`, is noted and checked by its syntax.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.controlplane.api import Document
from tests.e2e.controller import Controller
from tests.e2e.world import World

from .blocks import ROOT, Command, mismatch

NOT_RUN: Mapping[str, str] = {
    "aws": "there is no AWS account; the SDK's own description tells the commands and their arguments",
    "pip": "it would fetch distributions of this repository from a registry that may not have them yet",
}
"""Programs that are not run, and why not."""

_KUBECTL = """\
case "$1" in
rollout) [ "$2" = status ] && exec {kubectl} get "${{@:3}}" ;;
logs|port-forward)
  kept=()
  for each in "${{@:2}}"; do case "$each" in --tail=*|[0-9]*:*) ;; *) kept+=("$each") ;; esac; done
  exec {kubectl} get "${{kept[@]}}" ;;
exec)
  named=(); shift
  while [ "$1" != -- ]; do named+=("$1"); shift; done
  {kubectl} get "${{named[@]}}" > /dev/null || exit
  shift; exec "$@" ;;
esac
exec {kubectl} "$@"
"""
_FLIPOP = """\
case "$1" in
demo) exec {flipop} "$@" --speed 50 ;;
run) exec timeout --preserve-status -s TERM 2 {flipop} "$@" --metrics-bind-addr 127.0.0.1:0 ;;
esac
exec {flipop} "$@"
"""
_MAKE = 'exec {make} --dry-run --no-print-directory -C {root} "$@"\n'
_NOTED = "printf '%s\\n' \"{name} $*\" >> {log}\n"

_PATIENT = ("kubectl get", "kubectl exec", "flipop status", "flipop plan")
"""What only reads is run again until it shows what the page shows: the controller needs its time."""

_PATIENCE_SECONDS = 10.0
_COMMAND_SECONDS = 90.0


class Session:
    """Runs commands in a directory of its own, in which ``deploy`` is the repository's."""

    def __init__(self, directory: Path, world: World, kubectl: Path, helm: Path) -> None:
        self.world = world
        self.directory = directory
        self._noted = directory / "not-run"
        self._noted.touch()
        # An uninstall takes the rights away before the controller ends, and an install gives them as it begins.
        world.expected_errors.add("not allowed to use the leader lease")
        self._controller: Controller | None = None
        programs = directory / "bin"
        programs.mkdir()
        (directory / "deploy").symlink_to(ROOT / "deploy")
        flipop, make = Path(sys.executable).with_name("flipop"), shutil.which("make")
        _write(programs / "kubectl", _KUBECTL.format(kubectl=kubectl))
        _write(programs / "flipop", _FLIPOP.format(flipop=flipop))
        (programs / "helm").symlink_to(helm)
        _write(programs / "make", _MAKE.format(make=make, root=ROOT))
        for name in NOT_RUN:
            _write(programs / name, _NOTED.format(name=name, log=self._noted))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HELM_"))}
        self._environment = {
            **kept,
            **world.variables(world.cluster.admin_kubeconfig),
            **{f"HELM_{kind}_HOME": str(directory / f"helm-{kind}") for kind in ("CACHE", "CONFIG", "DATA")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(directory),
            "COLUMNS": "100",
            "NO_COLOR": "1",
        }

    def write(self, name: str, text: str) -> None:
        """Make a file that commands name."""
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def follow(self, command: Command) -> None:
        """Run a command of a page: it has to succeed, and to print what the page shows."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            result = self.run(command.line)
            wrong = "" if command.output is None else _missing(command.output, result)
            # `flipop status` and `flipop plan` end with 2 when there is something to tell.
            ended_well = result.returncode == 0 or (result.returncode == 2 and "flipop " in command.line)
            if ended_well and not wrong:
                break
            patient = command.line.startswith(_PATIENT) and time.monotonic() < deadline
            assert patient, (
                f"{command.where}: $ {command.line}\nended with {result.returncode}; missing: {wrong}\n"
                f"{result.stdout}\n{result.stderr}\n{self.run('flipop status').stdout}"
            )
            time.sleep(0.3)
        self._play_kubelet()

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a command line to its end."""
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_SECONDS,
        )

    def succeed(self, line: str) -> str:
        """Run a command line that has to succeed, and return what it printed."""
        result = self.run(line)
        assert result.returncode == 0, f"$ {line}\n{result.stdout}\n{result.stderr}"
        self._play_kubelet()
        return result.stdout

    def noted(self) -> list[list[str]]:
        """Return the commands that were not run, as words."""
        return [shlex.split(line) for line in self._noted.read_text(encoding="utf-8").splitlines()]

    def _play_kubelet(self) -> None:
        """Let a controller run if flipop's own Deployment asks for one, with its arguments and account."""
        deployment = self.world.cluster.get("Deployment", "flipop", "flipop", api_version="apps/v1")
        wanted = _arguments(deployment)
        if self._controller is not None and wanted is None:
            self._controller.stop()
            self._controller = None
        elif self._controller is None and wanted is not None:
            command, _, *arguments = wanted
            assert command == "run"
            cluster = self.world.cluster
            cluster.await_access("flipop", "flipop", "create", "leases", "coordination.k8s.io")
            cluster.await_access("flipop", "flipop", "watch", "floatingippools", "flipop.digitalocean.com")
            self._controller = self.world.controller(*arguments)
            self._controller.await_leading()


def _arguments(deployment: Document | None) -> list[str] | None:
    """Return the arguments of the pods that a Deployment of ours asks for, None when it asks for none."""
    if deployment is None or deployment["spec"]["replicas"] == 0:
        return None
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return list(container["args"]) if "/flipop:" in container["image"] else None


def _missing(expected: str, result: subprocess.CompletedProcess[str]) -> str:
    """Return what a command did not print, to standard output or, since a terminal shows both, to standard error."""
    return mismatch(expected, result.stdout) and mismatch(expected, result.stdout + result.stderr)


def _write(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/bash\n{script}", encoding="utf-8")
    path.chmod(0o755)
