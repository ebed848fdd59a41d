from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from flipop_core.runtime.store import Identity, Store


class Thing(msgspec.Struct, frozen=True):
    name: str
    value: str = ""
    resource_version: str = ""
    uid: str = "u"
    namespace: str = "ns"


def identity(thing: Thing) -> Identity:
    return thing.namespace, thing.name, thing.uid


Changes = list[tuple[Thing | None, Thing | None]]


def make(**options: Any) -> tuple[Store[Thing], Changes]:
    changes: Changes = []
    return Store(identity, lambda old, new: changes.append((old, new)), **options), changes


def versioned() -> tuple[Store[Thing], Changes]:
    return make(version_of=lambda thing: thing.resource_version)


def test_views_come_change_and_go() -> None:
    store, changes = make()
    first, second = Thing("a", "1"), Thing("a", "2")
    store.observe(first, 1)
    store.observe(second, 2)
    assert (store.get("ns", "a"), len(store), list(store)) == (second, 1, [second])
    store.remove(("ns", "a"), 3)
    assert (store.get("ns", "a"), len(store), store.values()) == (None, 0, ())
    assert changes == [(None, first), (first, second), (second, None)]


def test_an_equal_view_is_no_change() -> None:
    store, changes = make()
    store.observe(Thing("a"), 1)
    store.observe(Thing("a"), 2)
    store.replace([Thing("a")], 3)
    assert changes == [(None, Thing("a"))]


def test_a_deletion_of_nothing_is_no_change() -> None:
    store, changes = make()
    store.remove(("ns", "a"), 1)
    assert changes == []


def test_another_uid_is_a_deletion_and_an_addition() -> None:
    store, changes = make()
    first, second, third = Thing("a", uid="1"), Thing("a", uid="2"), Thing("a", uid="3")
    store.observe(first, 1)
    store.observe(second, 2)
    store.replace([third], 3)
    assert changes == [(None, first), (first, None), (None, second), (second, None), (None, third)]


def test_a_list_replaces_everything() -> None:
    store, changes = make()
    assert not store.synced
    assert not store.wait_synced(0)
    store.replace([Thing("a"), Thing("b"), Thing("kept")], 1)
    assert store.synced
    assert store.wait_synced(0)
    del changes[:]
    store.replace([Thing("b", "2"), Thing("c")], 2, keep=[("ns", "kept")])
    assert changes == [(Thing("a"), None), (Thing("b"), Thing("b", "2")), (None, Thing("c"))]
    assert {thing.name for thing in store} == {"b", "c", "kept"}


def test_a_snapshot_stays_as_it_was() -> None:
    store, _ = make()
    store.observe(Thing("a"), 1)
    snapshot = store.snapshot()
    store.remove(("ns", "a"), 2)
    assert dict(snapshot) == {("ns", "a"): Thing("a")}


def test_views_are_found_by_index() -> None:
    store, _ = make(index=lambda thing: thing.value)
    store.replace([Thing("a", "x"), Thing("b", "x"), Thing("c", "y")], 1)
    assert store.having("x") == (Thing("a", "x"), Thing("b", "x"))
    store.observe(Thing("a", "y"), 2)
    store.observe(Thing("b", "x", uid="other"), 3)
    assert store.having("x") == (Thing("b", "x", uid="other"),)
    assert set(store.having("y")) == {Thing("a", "y"), Thing("c", "y")}
    store.remove(("ns", "b"), 4)
    assert store.having("x") == ()
    assert "x" not in store._by_index


def test_an_own_write_is_taken_over_at_once() -> None:
    store, changes = versioned()
    store.observe(Thing("a", "old", "5"), 5)
    assert store.apply(Thing("a", "new", "7"))
    assert store.get("ns", "a") == Thing("a", "new", "7")
    store.observe(Thing("a", "stale", "6"), 6)
    assert store.get("ns", "a") == Thing("a", "new", "7")
    store.observe(Thing("a", "new", "7"), 7)
    assert len(changes) == 2
    store.observe(Thing("a", "newer", "8"), 8)
    assert store.get("ns", "a") == Thing("a", "newer", "8")
    assert store._applied == {}


def test_versions_are_numbers() -> None:
    store, _ = versioned()
    store.observe(Thing("a", "old", "9"), 9)
    assert store.apply(Thing("a", "new", "10"))
    store.observe(Thing("a", "stale", "9"), 9)
    assert store.get("ns", "a") == Thing("a", "new", "10")


def test_an_answer_that_comes_late_is_no_news() -> None:
    store, changes = versioned()
    store.observe(Thing("a", "1", "5"), 5)
    store.observe(Thing("a", "2", "6"), 6)
    assert not store.apply(Thing("a", "1", "5"))
    assert not store.apply(Thing("a", "2", "6"))
    assert store.get("ns", "a") == Thing("a", "2", "6")
    assert len(changes) == 2


def test_an_answer_older_than_another_answer_is_no_news() -> None:
    store, _ = versioned()
    assert store.apply(Thing("a", "2", "7"))
    assert not store.apply(Thing("a", "1", "6"))
    assert store.get("ns", "a") == Thing("a", "2", "7")


def test_an_answer_does_not_bring_back_what_was_deleted() -> None:
    store, changes = versioned()
    store.observe(Thing("a", "1", "5"), 5)
    store.remove(("ns", "a"), 7)
    assert not store.apply(Thing("a", "2", "6"))
    assert store.get("ns", "a") is None
    assert changes[-1] == (Thing("a", "1", "5"), None)


def test_a_bookmark_tells_that_nothing_is_missing() -> None:
    store, _ = versioned()
    store.saw(8)
    assert not store.apply(Thing("a", "1", "8"))
    assert store.apply(Thing("a", "1", "9"))


def test_an_old_deletion_does_not_take_away_what_was_created_since() -> None:
    store, changes = versioned()
    store.observe(Thing("a", "1", "5", uid="one"), 5)
    assert store.apply(Thing("a", "2", "9", uid="two"))
    store.remove(("ns", "a"), 8)
    assert store.get("ns", "a") == Thing("a", "2", "9", uid="two")
    store.remove(("ns", "a"), 10)
    assert store.get("ns", "a") is None
    assert [(old is None, new is None) for old, new in changes] == [
        (True, False),
        (False, True),
        (True, False),
        (False, True),
    ]


def test_an_older_list_does_not_undo_own_writes() -> None:
    store, _ = versioned()
    store.observe(Thing("a", "1", "5"), 5)
    store.apply(Thing("a", "2", "9"))
    store.apply(Thing("b", "1", "10"))
    store.replace([Thing("a", "1", "5")], 8)
    assert set(store) == {Thing("a", "2", "9"), Thing("b", "1", "10")}
    store.replace([Thing("a", "3", "11")], 12)
    assert set(store) == {Thing("a", "3", "11")}


def test_a_list_of_another_history_counts_alone() -> None:
    store, _ = versioned()
    store.observe(Thing("a", "1", "500"), 500)
    store.apply(Thing("b", "1", "501"))
    store.replace([Thing("a", "0", "40")], 50)
    assert set(store) == {Thing("a", "0", "40")}
    assert store.apply(Thing("a", "1", "51"))


def test_own_writes_need_versions() -> None:
    store, _ = make()
    with pytest.raises(TypeError, match="version_of"):
        store.apply(Thing("a"))


def test_a_handler_that_fails_is_counted_and_the_change_stands() -> None:
    def fail(old: Thing | None, new: Thing | None) -> None:
        raise RuntimeError("no")

    store: Store[Thing] = Store(identity, fail)
    store.replace([Thing("a"), Thing("b")], 1)
    assert store.handler_errors == 2
    assert len(store) == 2


def test_a_replay_misses_nothing_and_tells_nothing_twice() -> None:
    told: Changes = []
    listeners: list[Any] = []

    def tell(old: Thing | None, new: Thing | None) -> None:
        for listener in listeners:
            listener(old, new)

    store: Store[Thing] = Store(identity, tell)
    store.observe(Thing("0"), 1)
    begun = threading.Event()

    def write() -> None:
        for number in range(1, 3000):
            store.observe(Thing(str(number)), number)
            begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait(5)

    def listener(old: Thing | None, new: Thing | None) -> None:
        told.append((old, new))

    store.replay(listener, then=lambda: listeners.append(listener))
    writer.join()
    assert sorted(int(new.name) for _, new in told if new is not None) == list(range(3000))


def test_a_handler_may_use_the_store() -> None:
    seen: list[int] = []
    store: Store[Thing] = Store(identity, lambda old, new: seen.append(len(store)))
    store.observe(Thing("a"), 1)
    store.replay(lambda old, new: store.observe(Thing(f"{new and new.name}x"), 2), then=lambda: None)
    assert seen == [1, 2]
