"""Logging: the shape of a line, what libraries say, and that no secret gets out."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import threading
import warnings
from typing import Any

import pytest
import structlog

from flipop_core.cli.logs import configure_logging, log_what_nobody_catches
from flipop_core.config import Secrets

TOKEN = "dop_v1_0123456789abcdef"

Capture = pytest.CaptureFixture[str]


def fail(error: Exception) -> None:
    raise error


def lines(capsys: Capture) -> list[dict[str, Any]]:
    captured = capsys.readouterr()
    assert captured.out == ""
    return [json.loads(line) for line in captured.err.splitlines()]


def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


class TestJSON:
    def test_a_line_has_the_shape_of_the_originals(self, capsys: Capture) -> None:
        configure_logging()
        structlog.get_logger("anything").warning("action", pool="default/web", count=2, ratio=0.5, none=None, on=True)
        (line,) = lines(capsys)
        assert list(line)[:3] == ["time", "level", "msg"]
        moment = dt.datetime.fromisoformat(line.pop("time"))
        assert moment.utcoffset() == dt.timedelta(0)
        assert abs(moment - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=1)
        assert line == {
            "level": "warning",
            "msg": "action",
            "pool": "default/web",
            "count": 2,
            "ratio": 0.5,
            "none": None,
            "on": True,
        }

    @pytest.mark.parametrize(
        ("method", "level"),
        [("info", "info"), ("warning", "warning"), ("error", "error"), ("critical", "fatal")],
    )
    def test_levels_are_named_as_in_logrus(self, capsys: Capture, method: str, level: str) -> None:
        configure_logging()
        getattr(structlog.get_logger(), method)("x")
        assert [line["level"] for line in lines(capsys)] == [level]

    def test_fields_that_clash_with_the_lines_own_are_renamed(self, capsys: Capture) -> None:
        configure_logging()
        structlog.get_logger().info("real", msg="other", time="12:00")
        (line,) = lines(capsys)
        assert (line["msg"], line["fields.msg"], line["fields.time"]) == ("real", "other", "12:00")
        assert dt.datetime.fromisoformat(line["time"])

    def test_an_exception_is_one_line(self, capsys: Capture) -> None:
        configure_logging()
        try:
            fail(ValueError("reason"))
        except ValueError:
            structlog.get_logger().exception("failed")
        (line,) = lines(capsys)
        assert line["level"] == "error"
        assert line["exception"].endswith("ValueError: reason")

    def test_any_value_becomes_json(self, capsys: Capture) -> None:
        configure_logging()
        structlog.get_logger().info("x", a=(1, {"k"}), b={1: object}, c=float("inf"), d=b"bytes", e="ü\n")
        (line,) = lines(capsys)
        assert line["a"] == [1, ["k"]]
        assert line["b"] == {"1": "<class 'object'>"}
        assert (line["c"], line["d"], line["e"]) == ("inf", "b'bytes'", "ü\n")

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, ["info", "warning"]),
            ({"debug": True}, ["debug", "info", "warning"]),
            ({"quiet": True}, ["warning"]),
            ({"quiet": True, "debug": True}, ["debug", "info", "warning"]),
        ],
    )
    def test_levels(self, capsys: Capture, options: dict[str, bool], expected: list[str]) -> None:
        configure_logging(**options)  # type: ignore[arg-type]  # flags only, from the table
        log = structlog.get_logger()
        log.debug("x")
        log.info("x")
        log.warning("x")
        assert [line["level"] for line in lines(capsys)] == expected

    def test_a_closed_standard_error_stops_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Gone:
            def write(self, text: str) -> int:
                raise BrokenPipeError

            def isatty(self) -> bool:
                return False

        configure_logging()
        monkeypatch.setattr(sys, "stderr", Gone())
        structlog.get_logger().error("nobody reads this")


class TestHuman:
    def test_is_the_default_on_a_terminal(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal(monkeypatch)
        monkeypatch.delenv("NO_COLOR", raising=False)
        configure_logging()
        structlog.get_logger().info("action", pool="default/web")
        text = capsys.readouterr().err
        assert "\x1b[" in text
        assert "action" in text
        assert "default/web" in text
        with pytest.raises(json.JSONDecodeError):
            json.loads(text)

    def test_no_color_is_honoured(self, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal(monkeypatch)
        monkeypatch.setenv("NO_COLOR", "1")
        configure_logging()
        structlog.get_logger().info("action", pool="default/web")
        text = capsys.readouterr().err
        assert "\x1b" not in text
        assert "pool=default/web" in text

    def test_a_traceback_shows_no_local_variables(self, capsys: Capture) -> None:
        configure_logging(style="human")
        local = "a-local-value"[::-1]
        try:
            fail(ValueError("reason"))
        except ValueError:
            structlog.get_logger().exception("failed")
        text = capsys.readouterr().err
        assert "ValueError: reason" in text
        assert local not in text


class TestLibraries:
    def test_warnings_of_libraries_come_in_the_same_shape(self, capsys: Capture) -> None:
        configure_logging()
        logging.getLogger("urllib3.connectionpool").warning("pool %s is full: 100%%", "host")
        (line,) = lines(capsys)
        assert (line["level"], line["msg"], line["logger"]) == (
            "warning",
            "pool host is full: 100%",
            "urllib3.connectionpool",
        )

    @pytest.mark.parametrize("debug", [False, True])
    def test_less_is_not_heard(self, capsys: Capture, debug: bool) -> None:
        configure_logging(debug=debug)
        logging.getLogger("kubernetes").info("x")
        logging.getLogger("azure").debug("x")
        assert lines(capsys) == []

    def test_exceptions_and_odd_levels(self, capsys: Capture) -> None:
        configure_logging()
        try:
            fail(OSError("reason"))
        except OSError:
            logging.getLogger("library").exception("failed")
        logging.getLogger("library").log(35, "between")
        logging.getLogger("library").log(99, "beyond")
        first, *others = lines(capsys)
        assert first["exception"].endswith("OSError: reason")
        assert [line["level"] for line in others] == ["warning", "fatal"]

    def test_a_record_that_cannot_be_formatted_stops_nothing(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(logging, "raiseExceptions", True)
        root = logging.getLogger()
        root.handlers[:] = []
        configure_logging()
        logging.getLogger("library").warning("%d", "text")
        assert "--- Logging error ---" in capsys.readouterr().err

    def test_configuring_again_does_not_repeat_lines(self, capsys: Capture) -> None:
        configure_logging()
        configure_logging()
        logging.getLogger("library").warning("once")
        assert len(lines(capsys)) == 1

    def test_warnings_and_the_end_of_a_thread(self, capsys: Capture) -> None:
        configure_logging()
        log_what_nobody_catches()
        warnings.filterwarnings("default", message="be warned")
        warnings.warn("be warned", stacklevel=1)

        def leave() -> None:
            raise SystemExit

        for target in (lambda: fail(RuntimeError("in a thread")), leave):
            thread = threading.Thread(target=target, name="worker")
            thread.start()
            thread.join(10)
        warned, ended = lines(capsys)
        assert (warned["level"], warned["logger"]) == ("warning", "py.warnings")
        assert "be warned" in warned["msg"]
        assert (ended["level"], ended["thread"]) == ("fatal", "worker")
        assert ended["exception"].endswith("RuntimeError: in a thread")


class Holder:
    """An object whose repr has a secret."""

    def __repr__(self) -> str:
        return f"Holder({TOKEN})"


class TestSecrets:
    @pytest.mark.parametrize("style", ["json", "human"])
    def test_none_gets_out_in_any_place(self, capsys: Capture, style: Any) -> None:
        configure_logging(style=style, secrets=Secrets([TOKEN]))
        log = structlog.get_logger().bind(bound=TOKEN)
        message = f"event {TOKEN}"
        log.warning(message, text=f"Bearer {TOKEN}", deep=[{"a": (TOKEN, Holder())}], k={TOKEN: 1})
        try:
            fail(ValueError(f"token {TOKEN}"))
        except ValueError as error:
            log.exception("failed", error=error)
            logging.getLogger("library").exception("with %s", TOKEN)
        text = capsys.readouterr().err
        assert TOKEN not in text
        assert text.count("***") >= 9

    def test_the_default_is_what_the_environment_calls_secret(
        self, capsys: Capture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOME_API_TOKEN", TOKEN)
        configure_logging()
        structlog.get_logger().info("x", token=TOKEN)
        assert lines(capsys)[0]["token"] == "***"

    def test_a_logger_made_earlier_is_redacted_too(self, capsys: Capture) -> None:
        log = structlog.get_logger()
        configure_logging(secrets=Secrets())
        token = "known-to-this-test-alone"
        log.info("first", token=token)
        configure_logging(secrets=Secrets([token]))
        log.info("second", token=token)
        assert [line["token"] for line in lines(capsys)] == [token, "***"]
