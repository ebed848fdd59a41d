"""Write hashed requirements for the project's own wheels: ``python requirements/wheels.py DIRECTORY [EXTRA,EXTRA…]``.

The lines on standard output name the core's wheel and those of the extras, with their SHA-256, so that an installer
can demand a hash for everything (``--require-hashes``); the hashes of all other packages are in ``constraints.txt``.
The standard library is enough.
"""

from __future__ import annotations

import hashlib
import sys
import zipfile
from collections.abc import Iterable, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

CORE = "flipop-core"


class WheelMissing(Exception):
    """A wheel that is asked for is not there, or there twice; the message names it."""


def requirements(directory: Path, extras: Iterable[str]) -> list[str]:
    """Return a requirement with a hash for the core's wheel and for each plugin's of `extras`.

    Raises `WheelMissing`, and `ValueError` for an extra that the core does not have.
    """
    wheels = {metadata(path)["Name"]: path for path in sorted(directory.glob("*.whl"))}
    if len(wheels) != len(list(directory.glob("*.whl"))):
        raise WheelMissing(f"{directory} holds several versions of one distribution")
    if CORE not in wheels:
        raise WheelMissing(f"{directory} holds no wheel of {CORE}")
    offered = _distributions_of_extras(metadata(wheels[CORE]))
    lines = [_line(CORE, wheels[CORE])]
    for extra in extras:
        if extra not in offered:
            raise ValueError(f"{CORE} has no extra {extra!r}: choose from {', '.join(sorted(offered))}")
        name = offered[extra]
        if name not in wheels:
            raise WheelMissing(f"{directory} holds no wheel of {name}, which the extra {extra!r} asks for")
        lines.append(_line(name, wheels[name]))
    return lines


def metadata(wheel: Path) -> Message:
    """Return the core metadata of `wheel`."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def _distributions_of_extras(core: Message) -> dict[str, str]:
    found = {}
    for requirement in core.get_all("Requires-Dist", []):
        name, _, marker = requirement.partition(";")
        if "extra ==" in marker:
            found[marker.partition("extra ==")[2].strip(" '\"")] = name.strip()
    return found


def _line(name: str, wheel: Path) -> str:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return f"{name} @ {wheel.absolute().as_uri()} --hash=sha256:{digest}"


def main(arguments: Sequence[str]) -> int:
    """Print the requirements; return the process's exit code."""
    if len(arguments) not in {1, 2}:
        sys.stderr.write("usage: wheels.py DIRECTORY [EXTRA,EXTRA...]\n")
        return 2
    extras = [extra for extra in "".join(arguments[1:]).split(",") if extra]
    try:
        lines = requirements(Path(arguments[0]), extras)
    except (WheelMissing, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
