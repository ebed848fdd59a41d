"""Label selectors: the grammar, what matches, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flipop_core.selectors import Requirement, Selector, SelectorError, parse_selector


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (" \t\n", ""),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        (" a = b ", "a=b"),
        ("a!=b", "a!=b"),
        ("a", "a"),
        ("!a", "!a"),
        ("! a", "!a"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("a in (b)", "a=b"),
        ("a in(c,b)", "a in (b,c)"),
        ("a in ( b , b )", "a=b"),
        ("a notin (b)", "a!=b"),
        ("a notin (c, b)", "a notin (b,c)"),
        ("a in ()", "a="),
        ("a in (,)", "a="),
        ("a in (,b)", "a in (,b)"),
        ("a in (b,)", "a in (,b)"),
        ("a>1", "a>1"),
        (" a < 10 , b", "a<10,b"),
        ("a>007", "a>007"),
        (f"a>{'9' * 18}", f"a>{'9' * 18}"),
        ("in>1,notin<2", "in>1,notin<2"),
        ("b,a", "a,b"),
        ("a=b,a=b", "a=b"),
        ("in in (notin)", "in=notin"),
        ("notin", "notin"),
        ("!in", "!in"),
        ("example.com/a-b_c.d=E-f_g.h", "example.com/a-b_c.d=E-f_g.h"),
        (f"{'a' * 253}/{'b' * 63}={'c' * 63}", f"{'a' * 253}/{'b' * 63}={'c' * 63}"),
    ],
)
def test_what_is_read(text: str, canonical: str) -> None:
    selector = parse_selector(text)
    assert str(selector) == canonical
    assert parse_selector(canonical) == selector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("=", "'=' is no label key"),
        (",", "',' is no label key"),
        ("a,", "nothing after the last ','"),
        ("a,,b", "',' is no label key"),
        ("a b", "expected ',' before 'b'"),
        ("a=b c", "expected ',' before 'c'"),
        ("a=b=c", "expected ',' before '='"),
        ("a!", "expected ',' before '!'"),
        ("!", "expected a label key after '!', found the end"),
        ("!!a", "'!' is no label key"),
        ("!a=b", "expected ',' before '='"),
        ("a>", "expected an integer, found the end"),
        ("a>b", "'b' is no integer"),
        ("a>,b", "',' is no integer"),
        ("a>-1", "'-1' is no integer"),
        ("a>=1", "'=' is no integer"),
        ("a>1.5", "'1.5' is no integer"),
        (f"a<{'9' * 19}", "is no integer of at most 18 digits"),
        ("a in (>1)", "'>' is no label value"),
        (">1", "'>' is no label key"),
        ("a 1", "expected ',' before '1'"),
        ("a=!b", "'!' is no label value"),
        ("a in", r"expected '\(' after 'in', found the end"),
        ("a in b", r"expected '\(' after 'in', found 'b'"),
        ("a notin b", r"expected '\(' after 'notin', found 'b'"),
        ("a in (", r"expected a value or '\)', found the end"),
        ("a in (b", r"expected ',' or '\)', found the end"),
        ("a in (b,", r"expected a value or '\)', found the end"),
        ("a in (b))", r"expected ',' before '\)'"),
        ("a in (b=c)", r"expected ',' or '\)' before '='"),
        ("a in (b c)", r"expected ',' or '\)' before 'c'"),
        ("a=-b", "'-b' is no label value"),
        ("a=b-", "'b-' is no label value"),
        (f"a={'b' * 64}", "is no label value: at most 63"),
        ("-a", "'-a' is no label key"),
        ("a" * 64, "is no label key: at most 63"),
        ("a/b/c", "'a/b' is no DNS subdomain"),
        ("/a", "'' is no DNS subdomain"),
        ("a/", "'a/' is no label key"),
        ("Example.com/a", "'Example.com' is no DNS subdomain"),
        (f"{'a' * 254}/b", "is no DNS subdomain"),
        ("é=a", "'é' is no label key"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        parse_selector(text)


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b", "c": "d"}, True),
        ("a=b", {"a": "c"}, False),
        ("a=b", {}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {"a": "b"}, False),
        ("a!=b", {}, True),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b,c)", {"a": "d"}, False),
        ("a in (b,c)", {}, False),
        ("a notin (b,c)", {"a": "d"}, True),
        ("a notin (b,c)", {"a": "b"}, False),
        ("a notin (b,c)", {}, True),
        ("a", {"a": ""}, True),
        ("a", {}, False),
        ("!a", {}, True),
        ("!a", {"a": ""}, False),
        ("a=b,!c", {"a": "b"}, True),
        ("a=b,!c", {"a": "b", "c": ""}, False),
        ("A=b", {"a": "b"}, False),
        ("a>4", {"a": "5"}, True),
        ("a>4", {"a": "4"}, False),
        ("a>4", {"a": "10"}, True),
        ("a>4", {"a": "05"}, True),
        ("a>4", {}, False),
        ("a<4", {}, False),
        ("a<4", {"a": ""}, False),
        ("a<4", {"a": "3"}, True),
        ("a<4", {"a": "x"}, False),
        ("a<4", {"a": "1.5"}, False),
        ("a>4,a<8", {"a": "6"}, True),
        ("a>4,a<8", {"a": "8"}, False),
    ],
)
def test_what_matches(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_selector(text).matches(labels) is expected


NAMES = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,10}[A-Za-z0-9])?", fullmatch=True)
PREFIXES = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?(\.[a-z0-9]{1,3})?/", fullmatch=True)
KEYS = st.tuples(st.just("") | PREFIXES, NAMES).map("".join)
VALUES = st.just("") | NAMES
INTEGERS = st.from_regex(r"[0-9]{1,18}", fullmatch=True)
REQUIREMENTS = (
    st.builds(Requirement, KEYS, st.sampled_from(["exists", "!"]))
    | st.builds(
        Requirement,
        KEYS,
        st.sampled_from(["in", "notin"]),
        st.sets(VALUES, min_size=1, max_size=4).map(sorted).map(tuple),
    )
    | st.builds(Requirement, KEYS, st.sampled_from(["<", ">"]), st.tuples(INTEGERS))
)
SELECTORS = st.lists(REQUIREMENTS, max_size=5).map(lambda found: Selector(tuple(sorted(set(found)))))


@given(SELECTORS)
def test_a_selector_survives_its_text(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector


@given(SELECTORS, st.dictionaries(KEYS, VALUES, max_size=4))
def test_the_text_matches_what_the_selector_matches(selector: Selector, labels: dict[str, str]) -> None:
    assert parse_selector(str(selector)).matches(labels) is selector.matches(labels)


@given(st.text() | st.text(alphabet="ab1/.-=!<>,() \n", max_size=20))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except SelectorError:
        return
    assert parse_selector(str(selector)) == selector
