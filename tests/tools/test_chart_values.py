"""The table that is made from the comments of a ``values.yaml``."""

from __future__ import annotations

import pytest

from tests.tools.chart_values import BEGIN, END, Value, described_values, with_table

VALUES = """\
# About the file.

# -- How many,
# at least.
count: 2
image:
  # -- Where it is.
  name: "a|b"
  # Not described.
  tag: ""
# -- All of it.
limits:
  memory: 1Gi
none: null
"""


def test_values_are_described_by_the_comment_above() -> None:
    assert described_values(VALUES) == [
        Value("count", 2, "How many, at least."),
        Value("image.name", "a|b", "Where it is."),
        Value("image.tag", "", ""),
        Value("limits", {"memory": "1Gi"}, "All of it."),
        Value("none", None, ""),
    ]


def test_the_table_replaces_what_is_between_the_marks() -> None:
    readme = f"Before.\n{BEGIN}\nold\n{END}\nAfter.\n"
    made = with_table(readme, VALUES)
    assert made.startswith(f"Before.\n{BEGIN}\n\n| value | default | meaning |\n")
    assert '| `limits` | `{"memory": "1Gi"}` | All of it. |\n' in made
    assert '| `image.name` | `"a\\|b"` | Where it is. |\n' in made
    assert made.endswith(f"\n{END}\nAfter.\n")
    assert "old" not in made
    assert with_table(made, VALUES) == made


def test_a_readme_without_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        with_table("# Chart\n", VALUES)
