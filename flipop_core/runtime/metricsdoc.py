"""Writes the page about metrics from their definitions: ``python -m flipop_core.runtime.metricsdoc FILE``.

Without a file, the page goes to standard output.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from flipop_core.runtime.metricdefs import GROUPS, Definition

_HEAD = """\
# Metrics

`flipop run` serves Prometheus metrics at `/metrics` of `--metrics-bind-addr`. This page is generated from the code by
`make docs`.

- A metric marked *original* has the name, labels, bucket bounds and meaning that it has in digitalocean/flipop:
  dashboards and alerts made for that keep working.
- All that belongs to an object (a pool, a RoutedIP, a NodeDNSRecordSet) leaves with it. Metrics of objects are shown by
  the process that leads, and by no other.
- Metrics of pools carry the label `namespace`, the pool's own. Scrape with `honorLabels: true` (`honor_labels` in
  Prometheus's own configuration), or Prometheus renames it to `exported_namespace` in favour of the pod's.
- The answer is in the text format, whatever the scraper accepts, like the original's.
- Beside these, there are `process_*` metrics of the process: memory, CPU time, open files.

Alert rules are in `deploy/prometheus/alerts.yaml`, a Grafana dashboard is in `deploy/grafana/flipop.json`.
"""


def page() -> str:
    """Return the page as Markdown."""
    sections = [_HEAD]
    for group, definitions in GROUPS.items():
        rows = "\n".join(map(_row, definitions))
        sections.append(
            f"## {group}\n\n| Name | Type | Labels | Meaning | Original |\n| --- | --- | --- | --- | --- |\n{rows}\n"
        )
    return "\n".join(sections)


def _row(definition: Definition) -> str:
    labels = " ".join(f"`{label}`" for label in definition.labels) or "none"
    bounds = ""
    if definition.buckets:
        bounds = f" Bounds: {', '.join(f'{bound:g}' for bound in definition.buckets)} s."
    meaning = f"{definition.help} {definition.notes}{bounds}".replace("|", r"\|")
    cells = [f"`{definition.name}`", definition.type, labels, " ".join(meaning.split()), "yes" * definition.original]
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def main(arguments: Sequence[str]) -> int:
    """Write the page; return the process's exit code."""
    if arguments:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
