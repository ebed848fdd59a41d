"""The status page in a real browser: live, light and dark, on a phone, with the keyboard, without scripts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from .axe import axe_source_or_skip, violations
from .chromium import Browser
from .conftest import Serve
from .pagefacts import HOSTILE, calm_facts, empty_facts, hostile_facts, many_facts, troubled_facts

PHONE = (390, 844)
HEADLINE = "document.getElementById('headline').textContent"
ANNOUNCED = "document.getElementById('announcement').textContent"
CONNECTION = "document.getElementById('connection').textContent"
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"


def test_it_changes_without_a_reload(browser: Browser, serve: Serve) -> None:
    now = time.time()
    served = serve(calm_facts(now))
    browser.go(f"{served.url}/")
    assert browser.run(HEADLINE) == "All 3 ready."
    browser.run("window.loaded = document.getElementById('moves'); 0")
    facts = troubled_facts(now)
    served.box.put(facts._replace(process=replace(facts.process, accounts=())))
    browser.wait_for(f"{HEADLINE} === '2 of 6 need attention.'")
    assert browser.run("document.title") == "flipop: 2 of 6 need attention."
    assert browser.run(ANNOUNCED) == "2 of 6 need attention."
    assert "no-match" in browser.run("document.getElementById('FloatingIPPool:edge:api').textContent")
    assert browser.run("window.loaded === document.getElementById('moves')"), "what is as before stays"
    assert "None is used yet" in browser.run("document.getElementById('accounts').textContent")
    order = browser.run("[...document.querySelectorAll('main > section')].map((section) => section.id).join()")
    assert order == "summary,pools,routed-ips,record-sets,moves,accounts"
    assert browser.messages == []


def test_ages_count_and_what_is_due_comes_nearer(browser: Browser, serve: Serve) -> None:
    served = serve(troubled_facts(time.time()))
    browser.go(f"{served.url}/")
    due = "document.querySelector('.address .hold time[data-form=until]').textContent"
    first = browser.run(due)
    assert first.startswith("in ")
    browser.wait_for(f"{due} !== '{first}'")
    assert int(browser.run(due).split()[1]) < int(first.split()[1])


def test_a_lost_connection_is_told_and_found_again(browser: Browser, serve: Serve) -> None:
    served = serve(calm_facts(time.time()))
    browser.go(f"{served.url}/")
    browser.wait_for(f"{CONNECTION} === 'Live'")
    served.close()
    browser.wait_for(f"{CONNECTION}.startsWith('Connection lost')")
    assert browser.run(ANNOUNCED).startswith("Connection lost")
    assert browser.run(HEADLINE) == "All 3 ready.", "what was known stays"


@pytest.mark.parametrize("size", [(1200, 900), PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, serve: Serve, scheme: str, size: tuple[int, int]) -> None:
    source = axe_source_or_skip()
    browser.view(*size, scheme=scheme)
    browser.go(f"{serve(troubled_facts(time.time())).url}/")
    assert violations(browser, source) == []


def test_axe_finds_what_is_wrong(browser: Browser, serve: Serve) -> None:
    """The check itself can fail."""
    source = axe_source_or_skip()
    browser.go(f"{serve(calm_facts(time.time())).url}/")
    browser.run("document.querySelector('.quiet').style.color = '#ccc'; document.documentElement.lang = ''; 0")
    assert {rule for rule, *_ in violations(browser, source)} >= {"color-contrast", "html-has-lang"}


def test_light_and_dark(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    url = f"{serve(troubled_facts(time.time())).url}/"
    shots = {}
    for scheme, expected in (("light", "rgb(251, 251, 250)"), ("dark", "rgb(20, 23, 26)")):
        browser.view(scheme=scheme)
        browser.go(url)
        assert browser.run(BACKGROUND) == expected
        browser.screenshot(tmp_path / f"{scheme}.png")
        shots[scheme] = (tmp_path / f"{scheme}.png").read_bytes()
    assert shots["light"] != shots["dark"]
    assert all(len(shot) > 50_000 for shot in shots.values()), "hardly anything is drawn"


@pytest.mark.parametrize("kind", ["calm", "empty", "hostile", "many", "troubled"])
def test_nothing_is_wider_than_a_phone(browser: Browser, serve: Serve, kind: str) -> None:
    now = time.time()
    facts = {
        "calm": calm_facts(now),
        "empty": empty_facts(leading=False),
        "hostile": hostile_facts(now),
        "many": many_facts(now, 20, 20),
        "troubled": troubled_facts(now),
    }[kind]
    url = f"{serve(facts).url}/"
    for width in (PHONE[0], 320):
        browser.view(width, PHONE[1])
        browser.go(url)
        assert browser.run("document.documentElement.scrollWidth") == width
        wide = (
            "[...document.querySelectorAll('main *')].filter((each) => each.getBoundingClientRect().right > innerWidth)"
        )
        assert browser.run(f"{wide}.map((each) => each.outerHTML)") == []


def test_hostile_text_is_text(browser: Browser, serve: Serve) -> None:
    served = serve(hostile_facts(time.time()))
    browser.go(f"{served.url}/")
    browser.wait_for(f"{CONNECTION} === 'Live'")
    facts = hostile_facts(time.time() + 60)
    served.box.put(facts)
    browser.wait_for(
        "performance.getEntriesByType('resource').filter((each) => each.name.endsWith('content')).length > 1"
    )
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert "<script>alert(1)</script>\"'&\\x00\\x1b[31m\\u202egpj.exe" in browser.run("document.body.innerText")
    assert browser.run(f"document.body.textContent.includes({HOSTILE[-9]!r})") is False
    assert browser.messages == []


def test_only_own_files_are_loaded_and_nothing_inline_runs(browser: Browser, serve: Serve) -> None:
    served = serve(troubled_facts(time.time()))
    browser.go(f"{served.url}/")
    browser.wait_for(f"{CONNECTION} === 'Live'")
    assert browser.requests
    assert all(url.startswith(f"{served.url}/") for url in browser.requests)
    assert browser.messages == []
    browser.run(
        "const injected = document.createElement('script'); injected.textContent = 'window.ran = 1';"
        "document.body.append(injected); 0"
    )
    assert browser.run("window.ran") is None
    assert any("Content Security Policy" in message for message in browser.messages)


def test_without_scripts(browser: Browser, serve: Serve) -> None:
    served = serve(troubled_facts(time.time()))
    browser.scripts(enabled=False)
    browser.go(f"{served.url}/")
    assert browser.run(HEADLINE) == "2 of 6 need attention."
    assert browser.run("document.querySelector('meta[http-equiv=refresh]').content") == "10"
    assert browser.run("getComputedStyle(document.getElementById('live')).display") == "none"
    stop = browser.run("document.querySelector('header noscript a').href")
    browser.go(stop)
    assert browser.run("document.querySelector('meta[http-equiv=refresh]')") is None
    assert "in-progress" in browser.run("document.body.innerText")


def test_the_keyboard_is_enough(browser: Browser, serve: Serve) -> None:
    served = serve(troubled_facts(time.time()))
    browser.go(f"{served.url}/")
    browser.press("Tab")
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0, "it shows when it has the focus"
    browser.press("Tab")
    assert browser.run("document.activeElement.id") == "pause"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press(" ")
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert browser.run(CONNECTION) == "Paused"
    served.box.put(calm_facts(time.time()))
    time.sleep(2.5)  # longer than it waits between two requests
    assert browser.run(HEADLINE) == "2 of 6 need attention."
    browser.press(" ")
    browser.wait_for(f"{HEADLINE} === 'All 3 ready.'")


def test_the_focus_stays_where_it_is(browser: Browser, serve: Serve) -> None:
    now = time.time()
    served = serve(troubled_facts(now))
    browser.go(f"{served.url}/")
    browser.run("document.querySelectorAll('.attention a')[1].focus(); 0")
    facts = troubled_facts(now)
    served.box.put(facts._replace(overview={**facts.overview, "recordSets": []}))
    browser.wait_for(f"{HEADLINE} === '2 of 5 need attention.'")
    assert browser.run("document.activeElement.hash") == "#FloatingIPPool:edge:broken"


def test_motion_is_as_the_user_wishes(browser: Browser, serve: Serve) -> None:
    url = f"{serve(calm_facts(time.time())).url}/"
    behaviours = []
    for reduced in (True, False):
        browser.view(reduced_motion=reduced)
        browser.go(url)
        behaviours.append(browser.run("getComputedStyle(document.documentElement).scrollBehavior"))
    assert behaviours == ["auto", "smooth"]


def test_a_link_leads_to_its_resource(browser: Browser, serve: Serve) -> None:
    browser.go(f"{serve(troubled_facts(time.time())).url}/")
    links = "[...document.querySelectorAll('.attention a')].map((link) => decodeURIComponent(link.hash.slice(1)))"
    assert browser.run(f"{links}.every((anchor) => document.getElementById(anchor))") is True
