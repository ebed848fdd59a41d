"""Print the notes of a release: ``python changelog.d/notes.py VERSION``, in the repository's root.

They are the section of that version in ``CHANGELOG.md``. It is an error if the code has another version, if there is no
such section, or if a fragment was not gathered into it. The standard library is enough.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path


class NotReady(Exception):
    """The tree is not that of the release; the message says what is missing."""


def notes(root: Path, version: str) -> str:
    """Return the notes of ``version`` from the repository in ``root``. Raises `NotReady`."""
    code = (root / "flipop_core" / "__init__.py").read_text(encoding="utf-8")
    if f'__version__ = "{version}"\n' not in code:
        raise NotReady(f"flipop_core.__version__ is not {version}")
    left = sorted(path.name for path in (root / "changelog.d").glob("[0-9]*.md"))
    if left:
        raise NotReady(f"not gathered into CHANGELOG.md: {', '.join(left)}")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8") if changelog.exists() else ""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        if title.split()[0] == version and body.strip():
            return f"{body.strip()}\n"
    raise NotReady(f"CHANGELOG.md says nothing of {version}")


def main(arguments: Sequence[str]) -> int:
    """Print the notes; return the process's exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: notes.py VERSION\n")
        return 2
    try:
        sys.stdout.write(notes(Path.cwd(), arguments[0]))
    except NotReady as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
