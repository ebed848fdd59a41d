"""The chart, and helm to render and install it with."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.api import Document
from tests.tools.manifests import CHART, DEPLOY

__all__ = ["CHART", "DEPLOY", "VALUE_SETS", "Helm", "loaded", "nested", "only", "pod_of", "values_of"]

VALUE_SETS = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
"""The names of the files of values that the chart is tried with, beside its own."""

_SECONDS = 120.0
_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Helm:
    """helm, with a home of its own; ``kubeconfig`` only where a cluster is meant."""

    def __init__(self, binary: Path, home: Path, kubeconfig: Path | None = None) -> None:
        self._binary = binary
        self._home = home
        self._rendered: dict[tuple[str, ...], str] = {}
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))},
            **{f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
            "KUBECONFIG": str(kubeconfig or home / "none"),
            "HOME": str(home),
            "GOGC": "off",  # each call ends before there is much to collect
        }

    def on(self, kubeconfig: Path) -> Helm:
        """Return a helm for a cluster."""
        return Helm(self._binary, self._home, kubeconfig)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            [str(self._binary), *arguments],
            env=self._environment,
            cwd=self._home,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )

    def succeed(self, *arguments: str) -> str:
        """Run it, and return what it printed."""
        result = self.run(*arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def template(
        self, values: Mapping[str, Any] | None = None, *arguments: str, value_set: str | None = None
    ) -> list[Document]:
        """Return the objects that the chart makes as release ``flipop`` in namespace ``flipop``."""
        return loaded(self.rendered(values, *arguments, value_set=value_set))

    def rendered(self, values: Mapping[str, Any] | None = None, *arguments: str, value_set: str | None = None) -> str:
        """Return the same as text."""
        command = ["template", "flipop", str(CHART), "--namespace", "flipop", *_given(values, value_set), *arguments]
        known = tuple(command)
        if known not in self._rendered:
            self._rendered[known] = self.succeed(*command)
        return self._rendered[known]

    def refusal(self, values: Mapping[str, Any]) -> str:
        """Return why the chart cannot be rendered with these values."""
        result = self.run("template", "flipop", str(CHART), *_given(values, None))
        assert result.returncode != 0, f"not refused: {values}"
        return result.stderr


def _given(values: Mapping[str, Any] | None, value_set: str | None) -> Sequence[str]:
    files = [] if value_set is None else [f"--values={CHART}/ci/{value_set}-values.yaml"]
    sets = [f"--set-json={name}={json.dumps(value)}" for name, value in (values or {}).items()]
    return [*files, *sets]


def loaded(text: str) -> list[Document]:
    """Return the documents of a YAML text; with the parser in C where there is one, since the schemas are long."""
    return [document for document in yaml.load_all(text, Loader=_LOADER) if document]


def values_of(value_set: str) -> Document:
    """Return a file of values."""
    found: Document = yaml.safe_load((CHART / "ci" / f"{value_set}-values.yaml").read_text())
    return found


def nested(path: str, value: Any) -> Document:
    """Return values with ``value`` at a dotted path, as an argument of `Helm.template`."""
    first, *rest = path.split(".")
    for part in reversed(rest):
        value = {part: value}
    return {first: value}


def only(documents: Sequence[Document], kind: str) -> Document:
    """Return the one object of a kind."""
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def pod_of(template: Document, namespace: str = "flipop") -> Document:
    """Return a pod as a Deployment's template makes it."""
    metadata = {"generateName": "flipop-", "namespace": namespace, "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def earlier_deployment(image: str) -> Document:
    """Return a Deployment of an earlier install, with what an apply cannot change: names and the immutable selector."""
    labels = {"app": "flipop"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "flipop", "namespace": "flipop", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "flipop", "image": image}]},
            },
        },
    }
