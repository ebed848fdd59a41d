"""What the page shows of an overview, and in which words."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from flipop_core.runtime.page import words
from flipop_core.runtime.page.app import Facts
from flipop_core.runtime.page.model import MAX_ADDRESSES, Page, page_model
from flipop_core.runtime.page.render import etag_of

from .pagefacts import address, calm_facts, empty_facts, hostile_facts, many_facts, pool, troubled_facts

NOW = 1_800_000_000.0


def page_of(facts: Facts) -> Page:
    return page_model(facts.overview, facts.process, facts.history)


def test_a_calm_cluster() -> None:
    page = page_of(calm_facts(NOW))
    assert (page.headline, page.tone, page.role, page.attention) == ("All 3 ready.", "good", "Leader", ())
    assert [(figure.label, figure.value, figure.total) for figure in page.figures] == [
        ("Pools ready", 1, 1),
        ("Routed IPs ready", 1, 1),
        ("Record sets ready", 1, 1),
        ("Addresses active", 4, 4),
    ]
    web = page.groups[0].rows[0]
    assert web.facts == ("digitalocean", "3 of 3 active", "5 fit nodes, 2 free")
    assert web.dns == ("A www.example.com (cloudflare)",)
    assert [(row.since, row.exact) for row in web.addresses] == [
        (NOW - 100, True),
        (NOW - 200, True),
        (NOW - 300, False),
    ]
    routed = page.groups[1].rows[0]
    assert (routed.facts, routed.firewall) == (("Service edge/ingress on 443/TCP",), "edge-firewall")


def test_a_troubled_one() -> None:
    page = page_of(troubled_facts(NOW))
    assert (page.headline, page.tone) == ("2 of 6 need attention.", "bad")
    assert [row.name for row in page.attention] == ["edge/api", "edge/broken"]
    api = page.groups[0].rows[0]
    assert [row.state for row in api.addresses] == [
        "no-match", "in-progress", "error", "unassigned", "active", "disabled",
    ]  # fmt: skip
    (grace,) = api.addresses[0].holds
    assert (grace.reason, grace.until, grace.moves) == ("Grace", NOW + 12, True)
    assert [hold.reason for hold in api.holds] == ["NoFreeNode"]
    assert {row.name: row.tone for row in page.groups[0].rows} == {
        "edge/api": "bad",
        "edge/broken": "bad",
        "edge/fresh": "idle",
        "edge/web": "good",
    }


@pytest.mark.parametrize(
    ("reason", "state", "tone"),
    [("Assigning", "in-progress", "busy"), ("Assigning", "error", "bad"), ("Grace", "no-match", "bad"),
     ("Creating", "active", "busy"), ("RateLimited", "active", "bad")],
)  # fmt: skip
def test_what_is_under_way_needs_no_attention(reason: str, state: str, tone: str) -> None:
    facts = empty_facts()
    row = pool("web", [address(1, state)], now=NOW, ready=False, reason=reason)
    page = page_of(facts._replace(overview={**facts.overview, "pools": [row]}))
    assert page.groups[0].rows[0].tone == tone
    assert page.headline == ("1 of 1 under way." if tone == "busy" else "1 of 1 needs attention.")


def test_a_standby_names_the_leader_and_shows_no_holds() -> None:
    facts = troubled_facts(NOW)
    process = replace(calm_facts(NOW, leading=False).process, epoch=0.0)
    page = page_of(facts._replace(process=process))
    assert (page.role, page.replica, page.leader) == (
        "Standby", "flipop-7c9d8f6b5-q9w8e", "flipop-7c9d8f6b5-x2x4k",
    )  # fmt: skip
    assert not any(row.holds for group in page.groups for row in group.rows)


def test_nothing_yet_and_what_keeps_a_process_from_being_ready() -> None:
    assert page_of(empty_facts()).headline == "No pools, RoutedIPs or record sets yet."
    assert page_of(empty_facts(problem="floatingippools are not listed yet.")).tone == "bad"
    alone = empty_facts()
    assert page_of(alone._replace(process=replace(alone.process, elects=False))).role == "Acts alone"


def test_there_are_not_too_many_addresses_and_those_in_trouble_come_first() -> None:
    facts = many_facts(NOW, 100, 12)
    last = pool("zz", [address(1, "error")], now=NOW, ready=False, reason="AddressError")
    page = page_of(facts._replace(overview={**facts.overview, "pools": [*facts.overview["pools"], last]}))
    rows = page.groups[0].rows
    assert len(rows) == 101
    assert [row.state for row in rows[-1].addresses] == ["error"]
    shown = sum(len(row.addresses) for group in page.groups for row in group.rows)
    assert shown == MAX_ADDRESSES
    assert sum(row.left_out for group in page.groups for row in group.rows) == 1202 - MAX_ADDRESSES


def test_no_text_of_others_can_control_anything() -> None:
    page = page_of(hostile_facts(NOW))
    characters = set(repr_of(page))
    assert not {char for char in characters if not char.isprintable()}
    identifiers = [row.anchor for group in page.groups for row in group.rows]
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(r"[A-Za-z0-9_.:-]+", identifier) for identifier in identifiers)


def repr_of(value: object) -> str:
    """Return all strings in a model, one after another."""
    if isinstance(value, str):
        return value
    if isinstance(value, tuple):
        return "".join(map(repr_of, value))
    fields = getattr(value, "__struct_fields__", ())
    return "".join(repr_of(getattr(value, field)) for field in fields)


def test_long_text_is_cut() -> None:
    facts = empty_facts()
    row = pool("web", [address(1, "error", error="x" * 30_000)], now=NOW, message="y" * 30_000)
    page = page_of(facts._replace(overview={**facts.overview, "pools": [row]}))
    shown = page.groups[0].rows[0]
    assert (len(shown.message), len(shown.addresses[0].error)) == (words.LONGEST_TEXT, words.LONGEST_TEXT)


def test_the_tag_depends_on_what_has_happened_and_not_on_the_time() -> None:
    assert etag_of(page_of(calm_facts(NOW))) == etag_of(page_of(calm_facts(NOW)))
    facts = calm_facts(NOW)
    later = facts._replace(process=replace(facts.process, epoch=0.0004))
    assert etag_of(page_of(later)) == etag_of(page_of(facts)), "the clocks are never read at the very same moment"
    assert etag_of(page_of(calm_facts(NOW))) != etag_of(page_of(troubled_facts(NOW)))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (86_400 * 9, "9 d")],
)
def test_spans(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


def test_times() -> None:
    assert (words.distance(NOW + 12, NOW), words.distance(NOW - 90, NOW)) == ("in 12 s", "1 min ago")
    assert (words.until(NOW + 12, NOW), words.until(NOW - 90, NOW)) == ("in 12 s", "now")
    assert (words.duration(4.24), words.duration(75)) == ("4.2 s", "1 min")
    assert words.timestamp(NOW) == "2027-01-15T08:00:00Z"
    assert (words.clock(NOW, NOW), words.clock(NOW, NOW + 86_400)) == ("08:00:00", "2027-01-15 08:00:00")
    assert words.unix_seconds(words.timestamp(NOW)) == NOW
    assert words.unix_seconds("no time") is None


def test_the_times_in_a_message_are_found() -> None:
    message = "it moves at 2027-01-15T08:00:00Z unless x; 2027-99-15T08:00:00Z is none"
    assert list(words.parts(message)) == [
        ("it moves at ", None),
        ("2027-01-15T08:00:00Z", NOW),
        (" unless x; 2027-99-15T08:00:00Z is none", None),
    ]
    assert list(words.parts("")) == []
