"""Makes the template's files from the example: ``python examples/template/update.py`` after a change of the example.

A test renders the template with the example's answers and compares, so that neither changes without the other.
"""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parent / "third_party_plugin"
TEMPLATE = HERE / "plugin"

ANSWERS = {
    "name": "nimbus",
    "title": "Nimbus",
    "package": "flipop_nimbus",
    "token_variable": "NIMBUS_TOKEN",
    "api_url": "https://api.nimbus.example/v1",
}
"""The answers to the template's questions that give the example."""

REPLACED = (
    ("NIMBUS_TOKEN", "{{ token_variable }}"),
    ("NIMBUS_API_URL", "{{ api_url_variable }}"),
    ("https://api.nimbus.example/v1", "{{ api_url }}"),
    ("flipop_nimbus", "{{ package }}"),
    ("flipop-nimbus", "{{ distribution }}"),
    ("NimbusServer", "{{ class_name }}Server"),
    ("TestNimbus", "Test{{ class_name }}"),
    ("Nimbus", "{{ title }}"),
    ("nimbus", "{{ name }}"),
)
"""What depends on the answers, in the order in which it is replaced."""

ABOUT_THE_EXAMPLE = """\
Nimbus is a made-up cloud. This is what a complete plugin looks like that lives outside
flipop's own repository; `docs/provider-tutorial.md` there explains it, and `examples/template` makes one for your
cloud.
"""
ABOUT_A_NEW_PLUGIN = """\
Made from flipop's template: `client.py`,
`floatingips.py` and the stand-in speak the API of a made-up cloud until you teach them the one of {{ title }}. The
stand-in first, as the vendor documents it; then the two others, until the tests pass again.
"""
_UNTOUCHED = frozenset({"LICENSE", "py.typed"})
_IGNORED = frozenset({"__pycache__", "dist", "build", ".pytest_cache", ".mypy_cache", ".ruff_cache"})


def sources(root: Path) -> list[Path]:
    """Return the files under ``root`` that belong to a plugin, relative to it and sorted."""
    every = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return sorted(path for path in every if not _IGNORED & set(path.parts))


def template_of(text: str) -> str:
    """Return a text of the example as a template."""
    if ABOUT_THE_EXAMPLE in text:
        about = "{% if name == 'nimbus' %}" + ABOUT_THE_EXAMPLE + "{% else %}" + ABOUT_A_NEW_PLUGIN + "{% endif %}"
        before, _, after = text.partition(ABOUT_THE_EXAMPLE)
        return template_of(before) + about + template_of(after)
    for word, placeholder in REPLACED:
        text = text.replace(word, placeholder)
    return text


def main() -> None:
    """Write the template anew."""
    shutil.rmtree(TEMPLATE, ignore_errors=True)
    for source in sources(EXAMPLE):
        target = TEMPLATE / template_of(str(source))
        text = (EXAMPLE / source).read_text(encoding="utf-8")
        if source.name not in _UNTOUCHED:
            target, text = target.with_name(f"{target.name}.jinja"), template_of(text)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
