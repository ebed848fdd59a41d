"""Credentials from Secrets: read in the background, again from time to time, and never shown."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from flipop_core.cluster import SECRETS
from flipop_core.errors import ClusterError, ClusterUnavailable, Forbidden
from flipop_core.model import Key
from flipop_core.runtime.credentials import RETRY_SECONDS, CredentialsUnavailable, SecretCredentials
from flipop_core.testing.clock import FakeClock
from flipop_core.testing.kubeapi import InMemoryKubeAPI

NAME, KEY, OTHER = "edge/token", Key("RoutedIPIssuer", "", "main"), Key("RoutedIP", "edge", "web")
RECHECK_SECONDS = 300.0
VALUE = "cloud-token-0123456789"


class Rig:
    """Credentials on an in-memory API server, with a clock of the test's own."""

    def __init__(self) -> None:
        self.api = InMemoryKubeAPI()
        self.clock = FakeClock()
        self.lock = threading.RLock()
        self.woken: list[Key] = []
        self.changes: list[str] = []
        self.changed: Callable[[str], None] = self.changes.append
        self.credentials = SecretCredentials(
            self.api,
            lock=self.lock,
            wake=self.woken.append,
            changed=self._tell,
            clock=self.clock,
            recheck_seconds=RECHECK_SECONDS,
        )

    def _tell(self, name: str) -> None:
        self.changed(name)

    def put(self, data: dict[str, str] | None = None, *, raw: Any = None) -> None:
        """Write the Secret: ``data`` in plain text, or ``raw`` as it is to stand there."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in (data or {}).items()}
        self.remove()
        self.api.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "token", "namespace": "edge"},
                "data": encoded if raw is None else raw,
            }
        )

    def remove(self) -> None:
        if self.api.read_all(SECRETS):
            self.api.delete_object(SECRETS, "token", "edge")

    def ask(self, key: Key = KEY) -> bool:
        with self.lock:
            return self.credentials.known(NAME, key)

    def values(self) -> dict[str, str]:
        with self.lock:
            return dict(self.credentials.values(NAME))

    def problem(self) -> str:
        with self.lock, pytest.raises(CredentialsUnavailable) as caught:
            self.credentials.values(NAME)
        return str(caught.value)

    def reads(self) -> int:
        return self.api.calls["get", "secrets"]

    def settle(self) -> None:
        """Wait until no read is under way."""
        deadline = time.monotonic() + 30.0
        while True:
            with self.lock:
                if not any(entry.reading for entry in self.credentials._entries.values()):
                    return
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def read(self, key: Key = KEY, *, after_seconds: float = 0.0) -> None:
        """Ask, after some time, and wait for the answer."""
        self.clock.advance(after_seconds)
        self.ask(key)
        self.settle()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    rig.credentials.close()


def test_a_secret_is_read_in_the_background_once_for_all_who_ask(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE, "CLOUD_REGION": "east\n"})
    with rig.lock:
        assert not rig.credentials.known(NAME, KEY)
        assert not rig.credentials.known(NAME, OTHER)
        assert "not been read yet" in rig.problem()
    rig.settle()
    assert sorted(rig.woken) == sorted([KEY, OTHER])
    assert rig.ask()
    assert rig.values() == {"CLOUD_TOKEN": VALUE, "CLOUD_REGION": "east"}
    assert rig.reads() == 1
    assert not rig.changes


def test_one_that_was_never_asked_for_is_not_read(rig: Rig) -> None:
    assert "not been read yet" in rig.problem()
    assert rig.reads() == 0


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({}, ("is empty", "environment variables")),
        ({"CLOUD_TOKEN": "%%%"}, ("CLOUD_TOKEN", "write UTF-8")),
        ({"CLOUD_TOKEN": base64.b64encode(b"\xff\xfe").decode()}, ("CLOUD_TOKEN", "write UTF-8")),
        ({"CLOUD_TOKEN": 7}, ("cannot be read",)),
    ],
)
def test_a_secret_that_cannot_be_used_says_what_to_mend(rig: Rig, raw: Any, words: tuple[str, ...]) -> None:
    rig.put(raw=raw)
    rig.read()
    assert rig.woken == [KEY]
    message = rig.problem()
    assert message.startswith("spec.credentialsSecretRef: ")
    assert all(word in message for word in (NAME, *words))


def test_a_secret_that_is_missing_says_so_and_is_found_once_it_is_there(rig: Rig) -> None:
    rig.read()
    assert "there is no Secret edge/token: create it" in rig.problem()
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read(after_seconds=RETRY_SECONDS - 0.1)
    assert rig.reads() == 1
    rig.woken.clear()
    rig.read(after_seconds=0.1)
    assert rig.values() == {"CLOUD_TOKEN": VALUE}
    assert rig.woken == [KEY]
    assert not rig.changes


def test_a_secret_that_may_not_be_read_names_the_permission(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.api.fail_next("get", SECRETS, Forbidden("no", status=403))
    rig.read()
    message = rig.problem()
    assert "verb get on secrets in namespace edge" in message


@pytest.mark.parametrize("error", [ClusterUnavailable("away"), ClusterError("odd", status=500)])
def test_a_passing_error_keeps_what_was_read(rig: Rig, error: ClusterError) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read()
    rig.woken.clear()
    rig.api.fail_next("get", SECRETS, error)
    rig.read(after_seconds=RECHECK_SECONDS)
    assert rig.reads() == 2
    assert rig.values() == {"CLOUD_TOKEN": VALUE}
    assert not rig.woken
    assert not rig.changes


def test_a_passing_error_at_first_is_tried_again_soon(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.api.fail_next("get", SECRETS, ClusterUnavailable("away"))
    rig.read()
    assert "away" in rig.problem()
    rig.read(after_seconds=RETRY_SECONDS)
    assert rig.values() == {"CLOUD_TOKEN": VALUE}


def test_at_rest_one_read_an_interval_wakes_nobody(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read()
    rig.woken.clear()
    for _ in range(10):
        rig.read(after_seconds=RECHECK_SECONDS / 5)
    assert rig.reads() == 3
    assert not rig.woken
    assert not rig.changes


def test_new_values_are_told_of_once(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read()
    rig.put({"CLOUD_TOKEN": "another"})
    rig.woken.clear()
    rig.read(OTHER, after_seconds=RECHECK_SECONDS)
    assert rig.changes == [NAME]
    assert rig.values() == {"CLOUD_TOKEN": "another"}
    assert sorted(rig.woken) == sorted([OTHER])
    rig.read(after_seconds=RECHECK_SECONDS)
    assert rig.changes == [NAME]


def test_values_that_go_and_come_back_different_are_told_of(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read()
    rig.remove()
    rig.read(after_seconds=RECHECK_SECONDS)
    assert "there is no Secret" in rig.problem()
    assert not rig.changes
    rig.put({"CLOUD_TOKEN": "another"})
    rig.read(after_seconds=RETRY_SECONDS)
    assert rig.changes == [NAME]


def test_values_that_go_and_come_back_the_same_are_no_change(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read()
    rig.remove()
    rig.woken.clear()
    rig.read(after_seconds=RECHECK_SECONDS)
    assert rig.woken == [KEY]
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.woken.clear()
    rig.read(after_seconds=RETRY_SECONDS)
    assert rig.woken == [KEY]
    assert not rig.changes


def test_two_secrets_are_kept_apart(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read()
    with rig.lock:
        rig.credentials.known("edge/other", OTHER)
    rig.settle()
    assert rig.values() == {"CLOUD_TOKEN": VALUE}
    with rig.lock, pytest.raises(CredentialsUnavailable, match="edge/other"):
        rig.credentials.values("edge/other")


def test_a_listener_that_fails_keeps_nobody_from_being_woken(rig: Rig) -> None:
    def broken(name: str) -> None:
        raise RuntimeError(f"defect about {name}")

    rig.put({"CLOUD_TOKEN": VALUE})
    rig.read()
    rig.changed = broken
    rig.woken.clear()
    rig.put({"CLOUD_TOKEN": "another"})
    with capture_logs() as logs:
        rig.read(after_seconds=RECHECK_SECONDS)
        rig.credentials._executor.shutdown()
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == ["defect in handling a Secret"]
    assert rig.woken == [KEY]
    assert rig.values() == {"CLOUD_TOKEN": "another"}


@pytest.mark.parametrize(
    "encoded", [base64.b64encode(VALUE.encode()).decode(), base64.b64encode(VALUE.encode()).decode()[1:]]
)
def test_no_value_in_a_log_or_a_repr(rig: Rig, encoded: str) -> None:
    with capture_logs() as logs:
        rig.put({"CLOUD_TOKEN": VALUE})
        rig.read()
        rig.put(raw={"CLOUD_TOKEN": encoded, "OTHER": base64.b64encode(b"\xff" + VALUE.encode()).decode()})
        rig.read(after_seconds=RECHECK_SECONDS)
        rig.put({"CLOUD_TOKEN": f"{VALUE}-2"})
        rig.read(after_seconds=RETRY_SECONDS)
    assert rig.changes == [NAME]
    with rig.lock:
        shown = [repr(rig.credentials), *map(repr, rig.credentials._entries.values()), repr(logs)]
    assert logs
    assert not [text for text in shown if VALUE in text or encoded in text]


def test_nothing_is_read_after_close(rig: Rig) -> None:
    rig.put({"CLOUD_TOKEN": VALUE})
    rig.credentials.close()
    assert not rig.ask()
    assert not rig.ask()
    assert rig.reads() == 0
