"""The controller is killed (SIGKILL) while an IPv6 address is created: it is not lost, and not made twice."""

from __future__ import annotations

import pytest

from .apiproxy import ApiRequest
from .world import ALLOCATED, PENDING, World

CREATE = r"^/v2/reserved_ipv6$"


def writes_record(request: ApiRequest) -> bool:
    """Whether the request records the created address."""
    if request.method != "PATCH" or not request.path.split("?")[0].endswith("/pool"):
        return False
    annotations = request.body["metadata"].get("annotations", {})
    return bool(annotations.get(ALLOCATED)) and annotations.get(PENDING) is None


@pytest.mark.parametrize("moment", ["before the answer", "before the record"])
def test_killed_in_a_creation_loses_nothing_and_makes_nothing_twice(world: World, moment: str) -> None:
    proxy, kubeconfig = world.proxy()
    world.nodes(1)
    foreign = world.cloud.account.add_address(ipv6=True)
    world.pool(ipFamily="IPv6", desiredIPs=1)
    if moment == "before the answer":
        world.cloud.faults.add("POST", CREATE, kind="hang_after_effect", seconds=60.0)
        controller = world.controller(kubeconfig=kubeconfig)
    else:
        hold = proxy.hold(writes_record, "before")
        controller = world.controller(kubeconfig=kubeconfig)
        world.until(hold.reached.is_set, "the write to be held", 20.0)
    world.until(lambda: len(world.held()) == 2, "the creation to have its effect", 20.0)
    controller.kill()
    world.expire_lease()
    world.cloud.faults.clear()
    made = set(world.held())
    assert world.resource()["metadata"]["annotations"][PENDING]

    world.controller()
    (address,) = world.until_active(1)
    world.until(lambda: PENDING not in world.resource()["metadata"]["annotations"], "the record")
    world.until_at_rest()
    assert set(world.held()) == made == {foreign, address}
    assert world.resource()["metadata"]["annotations"][ALLOCATED] == address
