"""Nothing from an object reaches a terminal, a log, an event, a metric or a status unescaped."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from flipop_core.cli.logs import configure_logging
from flipop_core.cli.output import as_json, plans_as_text, printable
from flipop_core.cli.status import print_status
from flipop_core.config import KeptSecrets, Secrets
from flipop_core.errors import NotFound, ProviderError
from flipop_core.model import Key
from flipop_core.runtime.calls import Calls
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.metrics import Metrics

from . import hostile
from .profile import profile

HOSTILE = "a\x1b[31m\x1b]0;t\x07\x9b2J\nFAKE level=error\r\u2028\u202e\x00\x7f\ud800<script>alert(1)</script>"


def fail() -> None:
    raise RuntimeError(HOSTILE)


def check(text: str, *, lines: int | None = None) -> None:
    """Check that text controls no terminal and has as many lines as it should."""
    assert all(line.isprintable() for line in text.split("\n")), text
    assert lines is None or text.rstrip("\n").count("\n") == lines - 1, text


@pytest.fixture
def _own_logging() -> Iterator[None]:
    yield
    structlog.reset_defaults()


class Output:
    """Standard error for a while, a terminal or not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
        self.stream = io.StringIO()
        monkeypatch.setattr(sys, "stderr", self.stream)
        monkeypatch.setattr(self.stream, "isatty", lambda: terminal)

    def take(self) -> str:
        text = self.stream.getvalue()
        self.stream.seek(0)
        self.stream.truncate()
        return text


@pytest.mark.usefixtures("_own_logging")
@pytest.mark.parametrize("style", ["json", "human"])
def test_a_log_line_is_one_printable_line(style: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    output = Output(monkeypatch, terminal=False)
    configure_logging(style=style, secrets=Secrets(["top-secret-0123"]))
    log = structlog.get_logger("test")

    @profile(60)
    @given(hostile.texts, hostile.values)
    def lines(text: str, value: Any) -> None:
        log.warning(text, object=text, value=value, error=ProviderError(text), many=[text], named={text: text})
        shown = output.take()
        check(shown, lines=1)
        if style == "json":
            line = json.loads(shown)
            assert line["msg"] == text
            assert line["object"] == text

    lines()


@pytest.mark.usefixtures("_own_logging")
@pytest.mark.parametrize("style", ["json", "human"])
def test_a_traceback_is_printable(style: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    output = Output(monkeypatch, terminal=False)
    configure_logging(style=style)
    try:
        fail()
    except RuntimeError:
        structlog.get_logger("test").exception(HOSTILE, object=HOSTILE)
    shown = output.take()
    assert "RuntimeError" in shown
    check(shown, lines=1 if style == "json" else None)


def overview(text: str) -> dict[str, list[dict[str, Any]]]:
    """Return what `flipop status` shows, with ``text`` wherever an object has text."""
    base: dict[str, Any] = {
        "namespace": text,
        "name": text,
        "ready": False,
        "reason": text,
        "message": text,
        "since": text,
        "created": text,
        "dns": [{"type": text, "name": text}],
    }
    address = {"address": text, "state": text, "node": text, "error": text}
    pool = {**base, "active": 0, "desired": 1, "addresses": [address, address]}
    return {"pools": [pool], "routedIPs": [pool], "recordSets": [base]}


def test_the_tables_of_status_are_printable(capsys: pytest.CaptureFixture[str]) -> None:
    print_status(overview(HOSTILE))
    shown = capsys.readouterr().out
    assert "<script>" in shown
    check(shown)
    assert not any(line.startswith("FAKE") for line in shown.split("\n"))


@profile(40)
@given(hostile.texts)
def test_json_output_is_printable_and_says_the_same(text: str) -> None:
    shown = as_json(overview(text))
    check(shown)
    assert json.loads(shown) == overview(text)
    check(printable(text), lines=1)


def test_a_plan_is_printable() -> None:
    hold = {"reason": HOSTILE, "message": HOSTILE, "address": HOSTILE, "seconds": 3}
    plan = {"pool": HOSTILE, "actions": [{"action": "AssignAddress", "summary": HOSTILE}], "holds": [hold]}
    check(plans_as_text([plan, {"pool": HOSTILE, "error": HOSTILE}]), lines=6)


@profile(60)
@given(st.data())
def test_a_metric_has_its_labels_escaped(data: st.DataObject) -> None:
    text = data.draw(hostile.texts).encode(errors="replace").decode()[:200]
    registry = CollectorRegistry()
    Gauge("pools", "x", ["name"], registry=registry).labels(text).set(1)
    shown = generate_latest(registry).decode()
    samples = [line for line in shown.split("\n") if line and not line.startswith("#")]
    assert len(samples) == 1
    (family,) = text_string_to_metric_families(shown)
    assert family.samples[0].labels == {"name": text}


class _Writer:
    """Keeps what is submitted."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def create(self, _resource: object, _namespace: str, body: dict[str, Any], **_: object) -> None:
        self.bodies.append(body)

    def submit(self, _key: object, _kind: str, call: Any, _ended: Any) -> None:
        call()


def test_an_events_note_is_one_short_printable_line() -> None:
    writer = _Writer()
    recorder = EventRecorder(writer, writer, instance="i", clock=lambda: 0.0, wake_after=lambda key, seconds: None)  # type: ignore[arg-type]  # both at once
    recorder.record({"kind": "Pod", "name": "p", "uid": "u"}, "Failed", HOSTILE * 100, kind="Warning")
    (body,) = writer.bodies
    check(body["note"], lines=1)
    assert len(body["note"]) <= 1024


def test_what_a_provider_says_is_one_short_line_without_its_secrets() -> None:
    secrets = KeptSecrets()
    secrets.keep(["an/issuer+token/0123456789"])
    calls = Calls("test", max_workers=1, metrics=Metrics(), clock=lambda: 0.0, redact=secrets.redact)

    def refuse() -> None:
        raise NotFound(f"{HOSTILE} an/issuer+token/0123456789 an%2Fissuer%2Btoken%2F0123456789 {'x' * 10_000}")

    result = calls.timed("assign", Key("FloatingIPPool", "a", "b"), refuse)
    calls.close(1.0)
    assert isinstance(result, NotFound)
    check(str(result), lines=1)
    assert "issuer" not in str(result)
    assert len(str(result)) <= 1100


def test_what_is_kept_secret_is_found_in_every_form() -> None:
    secrets = KeptSecrets()
    secrets.keep(["p@ss/word+0123456789=="])
    for form in ("p@ss/word+0123456789==", "p%40ss%2Fword%2B0123456789%3D%3D", "cEBzcy93b3JkKzAxMjM0NTY3ODk9PQ=="):
        assert secrets.redact(f"x {form} y") == "x *** y"
