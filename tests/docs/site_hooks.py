"""What mkdocs does beside its own: a link from a page to a file outside ``docs/`` leads to the repository's copy of it.

So the same link works where the page is read as a file of the repository, and on the site. Loaded by ``mkdocs.yml``.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

REPOSITORY = "https://github.com/flipop/flipop/blob/main/"
LINK = re.compile(r"(\]\()(\.\.?/[^)\s]+)(\))")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the page's text with such links made absolute."""
    directory = posixpath.dirname(f"docs/{page.file.src_uri}")
    return LINK.sub(lambda found: f"{found[1]}{_target(directory, found[2])}{found[3]}", markdown)


def _target(directory: str, link: str) -> str:
    path, separator, anchor = link.partition("#")
    resolved = posixpath.normpath(posixpath.join(directory, path))
    return link if resolved.startswith("docs/") else f"{REPOSITORY}{resolved}{separator}{anchor}"
