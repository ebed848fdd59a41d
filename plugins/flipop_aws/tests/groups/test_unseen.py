"""Changes that no read has shown yet."""

from __future__ import annotations

from flipop_aws.unseen import SECONDS, Unseen


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def everything(fact: str) -> bool:
    return bool(fact)


def test_forgotten_once_seen() -> None:
    unseen: Unseen[str] = Unseen(Clock())
    unseen.note(["a", "b"], holds=True)
    unseen.note(["c"], holds=False)
    assert unseen.compare({"b", "c"}, everything) == {"a": True, "c": False}
    assert unseen.compare({"a", "b"}, everything) == {}
    assert unseen.compare({"c"}, everything) == {}


def test_forgotten_when_too_old() -> None:
    clock = Clock()
    unseen: Unseen[str] = Unseen(clock)
    unseen.note(["a"], holds=True)
    clock.now += SECONDS
    assert unseen.compare(set(), everything) == {"a": True}
    clock.now += 0.01
    assert unseen.compare(set(), everything) == {}


def test_the_last_change_counts() -> None:
    unseen: Unseen[str] = Unseen(Clock())
    unseen.note(["a"], holds=True)
    unseen.note(["a"], holds=False)
    assert unseen.compare({"a"}, everything) == {"a": False}


def test_a_read_of_others_says_nothing() -> None:
    unseen: Unseen[str] = Unseen(Clock())
    unseen.note(["a", "b"], holds=False)
    assert unseen.compare({"b"}, lambda fact: fact == "b") == {"b": False}
    assert unseen.compare({"a"}, everything) == {"a": False}
