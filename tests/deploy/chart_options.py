"""Every value of the chart, each with another one than its default."""

from __future__ import annotations

from typing import Any

from tests.controlplane.api import Document
from tests.tools.chart_values import described_values

from .charts import CHART, nested, values_of

PATHS = [value.path for value in described_values((CHART / "values.yaml").read_text())]

# Another value for each that no file of values sets to one that differs, and values without which it has no effect.
OTHERS: dict[str, Any] = {
    "nameOverride": "other",
    "selectorLabels": {"app": "other"},
    "revisionHistoryLimit": 1,
    "image.tag": "9.9.9",
    "credentials.existingSecret": "other",
    "serviceAccount.create": False,
    "rbac.create": False,
    "rbac.secrets.names": [{"name": "other", "namespace": "other"}],
    "crds.install": False,
    "crds.keep": False,
    "resources": {"limits": {"cpu": 1}},
    "podSecurityContext": {"runAsUser": 1000},
    "containerSecurityContext": {"runAsUser": 1000},
    "startupProbe": {"periodSeconds": 9},
    "livenessProbe": {"periodSeconds": 9},
    "readinessProbe": {"periodSeconds": 9},
    "podDisruptionBudget.maxUnavailable": "10%",
    "metrics.podMonitor.enabled": True,
    "metrics.podMonitor.labels": {"release": "a"},
    "metrics.podMonitor.interval": "1m",
    "metrics.podMonitor.scrapeTimeout": "9s",
    "metrics.podMonitor.relabelings": [{"action": "labeldrop", "regex": "a"}],
    "metrics.podMonitor.metricRelabelings": [{"action": "labeldrop", "regex": "a"}],
    "grafanaDashboard.labels": {"dashboards": "yes"},
    "tests.enabled": False,
}
NEEDED: dict[str, Document] = {
    "leaderElection.enabled": {"replicaCount": 1},
    "networkPolicy": {"networkPolicy": {"enabled": True}},
    "metrics.serviceMonitor": {"metrics": {"serviceMonitor": {"enabled": True}}},
    "metrics.podMonitor": {"metrics": {"podMonitor": {"enabled": True}}},
    "metrics.prometheusRule": {"metrics": {"prometheusRule": {"enabled": True}}},
    "grafanaDashboard": {"grafanaDashboard": {"enabled": True}},
}


def other_value(path: str) -> Any:
    """Return a value that is not the default: one of the files of values has it, or `OTHERS`."""
    for value_set in ("full", "strict"):
        found: Any = values_of(value_set)
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is not None and path not in OTHERS:
            return found
    return OTHERS[path]


def with_and_without(path: str) -> tuple[Document, Document]:
    """Return values in which another one is at ``path``, and the same values without it."""
    needed = next((values for prefix, values in NEEDED.items() if path.startswith(prefix)), {})
    base = {} if path.endswith(".enabled") and path in PATHS and "leaderElection" not in path else needed
    value = nested(path, other_value(path))
    name, given = next(iter(value.items()))
    if name != "crds":
        base = {**base, "crds": {"install": False}}  # the longest part, and the slowest
    return {**base, name: _merged(base.get(name, {}), given)}, base


def _merged(first: Any, second: Any) -> Any:
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return second
    return {**first, **{key: _merged(first.get(key), value) for key, value in second.items()}}
