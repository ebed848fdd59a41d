"""TXT contents to and from plain text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipop_cloudflare.text import quote_text, unquote_text


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", '""'),
        ("heritage=external-dns,external-dns/owner=a", '"heritage=external-dns,external-dns/owner=a"'),
        ('say "hi"', r'"say \"hi\""'),
        ("back\\slash", r'"back\\slash"'),
        ("tab\té", r'"tab\009\195\169"'),
        ("x" * 255, '"' + "x" * 255 + '"'),
        ("x" * 256, '"' + "x" * 255 + '" "x"'),
    ],
)
def test_both_ways(text: str, content: str) -> None:
    assert quote_text(text) == content
    assert unquote_text(content) == text


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("unquoted", "unquoted"),
        ('half "quoted"', 'half "quoted"'),
        ('"open', '"open'),
        ('"a""b"', "ab"),
        ('  "a"  "b" ', "ab"),
        (r'"\a"', "a"),
        (r'"\255"', "\ufffd"),
    ],
)
def test_what_others_wrote(content: str, text: str) -> None:
    assert unquote_text(content) == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_any_text_survives(text: str) -> None:
    content = quote_text(text)
    assert unquote_text(content) == text
    assert content.isascii()
