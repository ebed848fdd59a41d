"""The wheel has the page's files: what is beside the code is easily left out."""

from __future__ import annotations

import zipfile
from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

from flipop_core.runtime import page

ROOT = Path(__file__).resolve().parents[2]


def test_templates_and_static_files_are_in_the_wheel(tmp_path: Path) -> None:
    source = Path(page.__file__).parent
    beside = {path for path in source.rglob("*") if path.is_file() and path.suffix in (".html", ".css", ".js", ".svg")}
    assert {path.name for path in beside} >= {"page.html", "content.html", "status.css", "status.js", "status.svg"}
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    assert {path.relative_to(ROOT).as_posix() for path in beside} <= packed
