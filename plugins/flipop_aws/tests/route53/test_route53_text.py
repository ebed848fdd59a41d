"""Names and TXT values as Route 53 spells them."""

from __future__ import annotations

import re

import pytest

from flipop_aws.route53_text import address_of, plain_name, plain_value, quote_text, route53_value, unquote_text


@pytest.mark.parametrize(
    ("answered", "plain"),
    [
        (r"\052.example.com.", "*.example.com"),
        ("WWW.Example.com", "www.example.com"),
        (r"a\134b.example.com.", r"a\b.example.com"),
        (r"ex\303\244mple.com.", "exämple.com"),
        (r"ex\344mple.com.", r"ex\xe4mple.com"),
        ("_dmarc.example.com.", "_dmarc.example.com"),
    ],
)
def test_names_are_unescaped_from_octal(answered: str, plain: str) -> None:
    assert plain_name(answered) == plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", '""'),
        ("plain", '"plain"'),
        ("two words", '"two words"'),
        ('a "b"', r'"a \"b\""'),
        ("back\\slash", r'"back\\slash"'),
        ("é\n\x7f", r'"\303\251\012\177"'),
        ("x" * 256, f'"{"x" * 255}" "x"'),
    ],
)
def test_text_is_quoted_with_octal_escapes_and_split(text: str, value: str) -> None:
    assert quote_text(text) == value
    assert unquote_text(value) == text


def test_strings_have_255_bytes_not_characters() -> None:
    strings = re.findall(r'"([^"]*)"', quote_text("é" * 200))
    assert [string.count("\\") for string in strings] == [255, 145]


@pytest.mark.parametrize("value", ['unquoted "half', "plain", '"open', ""])
def test_what_is_not_quoted_is_taken_as_it_stands(value: str) -> None:
    assert unquote_text(value) == value


def test_strings_join_whatever_stands_between_them() -> None:
    assert unquote_text('"one"  "two""three"') == "onetwothree"


@pytest.mark.parametrize(
    ("record_type", "value", "canonical"),
    [
        ("A", "192.0.2.1", "192.0.2.1"),
        ("A", "2001:db8::1", ""),
        ("A", "host.example", ""),
        ("AAAA", "2001:DB8:0::1", "2001:db8::1"),
        ("AAAA", "fe80::1%eth0", ""),
        ("AAAA", "192.0.2.1", ""),
    ],
)
def test_addresses_are_canonical_and_of_the_type(record_type: str, value: str, canonical: str) -> None:
    assert address_of(record_type, value) == canonical


def test_values_there_and_back() -> None:
    assert plain_value("AAAA", "2001:DB8::0") == "2001:db8::"
    assert plain_value("NS", "ns1.example.net.") == "ns1.example.net."
    assert plain_value("TXT", route53_value("TXT", 'a "b"')) == 'a "b"'
    assert route53_value("A", "192.0.2.1") == "192.0.2.1"
