"""Log lines go where the thread's controller has them go."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import structlog

from flipop_core.loggers import carried_logger, get_logger, use_logger, with_logger

log = get_logger("flipop_core.example")


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def debug(self, event: str, /, **values: Any) -> None:
        self.lines.append(("debug", event, values))

    def info(self, event: str, /, **values: Any) -> None:
        self.lines.append(("info", event, values))

    def warning(self, event: str, /, **values: Any) -> None:
        self.lines.append(("warning", event, values))

    def error(self, event: str, /, **values: Any) -> None:
        self.lines.append(("error", event, values))


def fail() -> None:
    log.info("inner")
    raise OSError("no disk")


def test_to_structlog_by_default() -> None:
    with structlog.testing.capture_logs() as lines:
        log.bind(pool="a").warning("held", reason="Grace")
    assert lines == [{"event": "held", "pool": "a", "reason": "Grace", "log_level": "warning"}]


def test_to_a_structured_logger() -> None:
    recorder = Recorder()
    with use_logger(recorder), structlog.testing.capture_logs() as others:
        log.debug("a")
        log.bind(x=1).bind(y=2).info("b", y=3)
        try:
            fail()
        except OSError:
            log.exception("c")
    assert recorder.lines == [
        ("debug", "a", {}),
        ("info", "b", {"x": 1, "y": 3}),
        ("info", "inner", {}),
        ("error", "c", {"exc_info": True}),
    ]
    assert others == []


def test_to_one_of_structlog_that_is_bound() -> None:
    with structlog.testing.capture_logs() as lines, use_logger(structlog.get_logger("mine").bind(site="east")):
        log.info("started", port=1)
    assert lines == [{"event": "started", "site": "east", "port": 1, "log_level": "info"}]


def test_to_the_standard_library(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), use_logger(logging.getLogger("theirs")):
        log.debug("not shown")
        log.info("100% done", text="two words", empty="", number=1)
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("theirs", logging.INFO)
    assert record.getMessage() == "100% done text='two words' empty='' number=1"
    assert vars(record)["flipop"] == {"text": "two words", "empty": "", "number": 1}
    assert (record.filename, record.funcName) == ("test_loggers.py", "test_to_the_standard_library")


def test_to_an_adapter_with_an_exception(caplog: pytest.LogCaptureFixture) -> None:
    adapter = logging.LoggerAdapter(logging.getLogger("theirs"), {"site": "east"})
    with use_logger(adapter):
        try:
            fail()
        except OSError:
            log.exception("failed", exc_note="a = b")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert "no disk" in caplog.text
    assert "exc_note='a = b'" in record.getMessage()


def test_it_belongs_to_the_thread_and_what_that_starts() -> None:
    east, west, none = Recorder(), Recorder(), Recorder()

    def work(name: str) -> None:
        log.info(name)

    threads = []
    for recorder, name in ((east, "east"), (west, "west")):
        with use_logger(recorder):
            threads.append(threading.Thread(target=with_logger(work), args=(name,)))
            with ThreadPoolExecutor(2, initializer=carried_logger()) as executor:
                list(executor.map(work, [f"{name}-pool"] * 4))
    with use_logger(none):
        for thread in threads:
            thread.start()
            thread.join()
    assert [event for _, event, _ in east.lines] == ["east-pool"] * 4 + ["east"]
    assert [event for _, event, _ in west.lines] == ["west-pool"] * 4 + ["west"]
    assert none.lines == []


def test_what_was_before_comes_back() -> None:
    outer, inner = Recorder(), Recorder()
    with use_logger(outer):
        with pytest.raises(OSError, match="no disk"), use_logger(inner):
            fail()
        log.info("outer")
        with use_logger(None), structlog.testing.capture_logs() as lines:
            log.info("structlog")
    assert [event for _, event, _ in inner.lines] == ["inner"]
    assert [event for _, event, _ in outer.lines] == ["outer"]
    assert [line["event"] for line in lines] == ["structlog"]
