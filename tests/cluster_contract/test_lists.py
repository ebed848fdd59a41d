"""What `flipop_core.cluster.KubeAPI` promises of lists, of both API servers alike."""

from __future__ import annotations

import pytest

from flipop_core.cluster import NODES, PODS, KubeAPI, Query
from flipop_core.errors import ClusterError, Expired

from .objects import (
    WIDGETS,
    create,
    decoded,
    names,
    pod,
    widget,
)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", ["a", "b", "c"]),
        ("tier=web", ["a"]),
        ("tier!=web", ["b", "c"]),
        ("tier in (web, db)", ["a", "b"]),
        ("tier notin (web)", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("tier,zone=x", ["b"]),
    ],
)
def test_label_selectors(server: KubeAPI, namespace: str, selector: str, expected: list[str]) -> None:
    create(server, namespace, widget("c"))
    create(server, namespace, widget("b", labels={"tier": "db", "zone": "x"}))
    create(server, namespace, widget("a", labels={"tier": "web"}))
    assert names(server, Query(WIDGETS, namespace, label_selector=selector)) == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=a", ["a"]),
        ("spec.nodeName=one", ["a", "b"]),
        ("spec.nodeName==one,metadata.name!=a", ["b"]),
        ("spec.nodeName=", ["c"]),
        ("status.phase=Pending", ["a", "b", "c"]),
        ("status.phase!=Pending", []),
    ],
)
def test_field_selectors(server: KubeAPI, namespace: str, selector: str, expected: list[str]) -> None:
    server.create(PODS, namespace, pod("a", nodeName="one"))
    server.create(PODS, namespace, pod("b", nodeName="one"))
    server.create(PODS, namespace, pod("c"))
    assert names(server, Query(PODS, namespace, field_selector=selector)) == expected


@pytest.mark.parametrize(
    "query",
    [
        Query(PODS, label_selector="a b"),
        Query(PODS, field_selector="spec.unknown=1"),
        Query(NODES, field_selector="spec.nodeName=1"),
    ],
)
def test_selectors_that_mean_nothing(server: KubeAPI, query: Query) -> None:
    with pytest.raises(ClusterError) as caught:
        server.list_page(query)
    assert caught.value.status == 400
    assert not isinstance(caught.value, Expired)


def test_namespaces_are_apart(server: KubeAPI, namespace: str) -> None:
    create(server, namespace, widget("a"))
    create(server, "default", widget(f"b-{namespace}"))
    assert names(server, Query(WIDGETS, namespace)) == ["a"]
    assert {"a", f"b-{namespace}"} <= set(names(server, Query(WIDGETS)))


def test_pages_show_one_state(server: KubeAPI, namespace: str) -> None:
    for name in ("a", "b", "c", "d", "e"):
        create(server, namespace, widget(name))
    query = Query(WIDGETS, namespace)
    page = server.list_page(query, limit=2)
    create(server, namespace, widget("f"))
    server.delete(WIDGETS, namespace, "d")
    pages = [page]
    while pages[-1].continue_token:
        pages.append(server.list_page(query, limit=2, continue_token=pages[-1].continue_token))
    found = [[decoded(item)["metadata"]["name"] for item in page.items] for page in pages]
    assert found == [["a", "b"], ["c", "d"], ["e"]]
    assert len({page.resource_version for page in pages}) == 1
    assert names(server, query) == ["a", "b", "c", "e", "f"]


def test_no_limit_is_one_page(server: KubeAPI, namespace: str) -> None:
    for name in ("a", "b", "c"):
        create(server, namespace, widget(name))
    page = server.list_page(Query(WIDGETS, namespace), limit=0, resource_version="0")
    assert len(page.items) == 3
    assert page.continue_token == ""


def test_an_empty_list_has_a_version(server: KubeAPI, namespace: str) -> None:
    page = server.list_page(Query(WIDGETS, namespace))
    assert page.items == ()
    assert page.resource_version.isdecimal()


@pytest.mark.parametrize("arguments", [{"continue_token": "nonsense"}, {"resource_version": "99999999999"}])
def test_lists_that_cannot_go_on(server: KubeAPI, arguments: dict[str, str]) -> None:
    with pytest.raises(Expired):
        server.list_page(Query(PODS), **arguments)  # type: ignore[arg-type]  # mypy takes the values for any argument
