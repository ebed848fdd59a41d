"""RoutedIPs in a whole controller: the order of all steps."""

from __future__ import annotations

from flipop_core.cluster import NODES, ROUTED_IPS, SERVICES
from flipop_core.errors import (
    QuotaExceeded,
)
from tests.runtime.routedrig import FIREWALL, FIREWALL_CHANGES, RoutedRig, rules

from .scenes import serve


def test_the_firewall_is_opened_before_the_address_comes(rig: RoutedRig) -> None:
    serve(rig, "a", "b")
    assert rig.steps() == ["create", "add_rules", "add_nodes", "assign"]
    assert rig.firewall() == ({443}, set(rig.held().values()))


def test_a_failover_admits_the_new_node_first_and_lets_the_old_one_go_last(rig: RoutedRig) -> None:
    address = serve(rig, "a")
    before = len(rig.steps())
    rig.endpoints("b")
    rig.until_active("b")
    rig.until_firewall({443}, "b")
    assert rig.steps(before) == ["add_nodes", "assign", "remove_nodes"]
    assert rig.held() == {address: "b"}


def test_the_address_stays_on_a_node_that_is_fit(rig: RoutedRig) -> None:
    serve(rig, "b")
    rig.endpoints("a", "b", "c")
    rig.until_quiet()
    assert set(rig.held().values()) == {"b"}


def test_new_ports_are_opened_before_old_ones_are_closed(rig: RoutedRig) -> None:
    serve(rig)
    before = len(rig.steps())
    rig.service("a", ports=(8443,))
    rig.until_firewall({8443}, "a")
    steps = rig.steps(before)
    assert steps.index("add_rules") < steps.index("remove_rules")
    assert "assign" not in steps
    rig.until(lambda: rig.status()["ports"] == ["8443/TCP"], "the ports in the status")


def test_with_post_allow_the_address_moves_first(rig: RoutedRig) -> None:
    rig.strict = False
    rig.service("a")
    rig.issuer(firewallPostAllow=True)
    rig.routed_ip()
    rig.start()
    rig.until_active("a")
    rig.until_firewall({443}, "a")
    before = len(rig.steps())
    assert [step for step in rig.steps() if step in ("assign", "add_rules", "add_nodes")][1:] == [
        "add_rules",
        "add_nodes",
    ] or rig.steps() == ["create", "add_rules", "add_nodes"]
    rig.endpoints("b")
    rig.until_active("b")
    rig.until_firewall({443}, "b")
    assert rig.steps(before) == ["assign", "add_nodes", "remove_nodes"]


def test_what_others_added_stays(rig: RoutedRig) -> None:
    rig.cloud.firewalls.put_rules(FIREWALL, rules(22, 443))
    rig.cloud.firewalls.put_nodes(FIREWALL, ["memory://a", "memory://c"])
    serve(rig, "a")
    rig.endpoints("b")
    rig.until_active("b")
    rig.until_firewall({22, 443}, "abc")
    rig.delete()
    rig.until(rig.gone, "gone")
    rig.until_quiet()
    assert rig.firewall() == ({22, 443}, {"a", "c"})


def test_a_firewall_that_takes_effect_later_is_waited_for(rig: RoutedRig) -> None:
    rig.cloud.firewalls.action_seconds = 0.3
    serve(rig, "a")
    rig.endpoints("b")
    rig.until_active("b", skipping=True)
    rig.until_firewall({443}, "b", skipping=True)


def test_a_firewall_that_is_missing_keeps_the_address_from_moving(rig: RoutedRig) -> None:
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()
    message = rig.until_reason("FirewallNotFound")
    assert FIREWALL in message
    assert "assign" not in rig.steps()
    rig.cloud.firewalls.add_firewall(FIREWALL)
    rig.until_active("a", skipping=True)


def test_an_edit_tries_a_missing_firewall_at_once(rig: RoutedRig) -> None:
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()
    rig.until_reason("FirewallNotFound")
    rig.until_quiet()
    rig.cloud.firewalls.add_firewall(FIREWALL)
    rig.edit(ROUTED_IPS, "web", routedIPReclaimPolicy="Retain")
    rig.until_active("a")


def test_a_former_firewall_is_cleaned_once_the_new_one_is_open(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.cloud.firewalls.add_firewall("other")
    rig.edit(ROUTED_IPS, "web", routedIPFirewallName="other")
    rig.until(lambda: rig.firewall("other") == ({443}, {"a"}), "the new one is open")
    rig.until_firewall((), "")
    changes = [(call.operation, call.arguments["firewall"]) for call in rig.calls(*FIREWALL_CHANGES)][2:]
    assert changes == [
        ("add_rules", "other"),
        ("add_nodes", "other"),
        ("remove_rules", FIREWALL),
        ("remove_nodes", FIREWALL),
    ]
    rig.until(lambda: [each["name"] for each in rig.status()["firewallEntries"]] == ["other"], "the record")


def test_a_former_firewall_that_is_gone_is_forgotten(rig: RoutedRig) -> None:
    serve(rig, "a")
    rig.cloud.firewalls.add_firewall("other")
    rig.cloud.firewalls.remove_firewall(FIREWALL)
    rig.edit(ROUTED_IPS, "web", routedIPFirewallName="other")
    rig.until(
        lambda: [each["name"] for each in rig.status().get("firewallEntries", [])] == ["other"], "", skipping=True
    )
    rig.delete()
    rig.until(rig.gone, "gone", skipping=True)


def test_a_node_that_is_gone_is_replaced(rig: RoutedRig) -> None:
    serve(rig, "a", "b")
    (node,) = rig.held().values()
    rig.cloud.remove_node(f"memory://{node}")
    rig.api.delete_object(NODES, node)
    other = ({"a", "b"} - {node}).pop()
    rig.until_active(other, skipping=True)
    rig.until_firewall({443}, other, skipping=True)


def test_a_node_that_the_firewall_does_not_take_is_passed_over(rig: RoutedRig) -> None:
    rig.cloud.faults.add(
        "add_nodes",
        error=QuotaExceeded("that node has too many firewalls"),
        times=None,
        match=lambda call: call.arguments["provider_ids"] == ("memory://a",),
    )
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start()
    rig.until(lambda: rig.calls("add_nodes"), "a call for a")
    rig.endpoints("a", "b")
    rig.until_active("b")
    assert set(rig.held().values()) == {"b"}


def test_a_service_that_becomes_an_external_name_serves_nowhere(rig: RoutedRig) -> None:
    address = serve(rig, "a")
    before = len(rig.steps())
    # Its slices stay: Kubernetes does not touch them any more.
    rig.edit(SERVICES, "web", type="ExternalName", externalName="example.com", ports=None)
    assert "ExternalName" in rig.until_reason("NoReadyEndpoint")
    rig.api.set_node_ready("a", False)
    rig.until_quiet()
    assert rig.steps(before) == []
    assert rig.held() == {address: "a"}
    rig.edit(SERVICES, "web", type="ClusterIP", externalName=None, ports=[{"port": 443, "protocol": "TCP"}])
    rig.endpoints("b")
    rig.until_active("b")


def test_nothing_is_called_at_rest_but_one_read_of_each_at_the_recheck(rig: RoutedRig) -> None:
    rig.service("a")
    rig.issuer()
    rig.routed_ip()
    rig.start(recheck_seconds=60.0)
    rig.until_active("a")
    rig.until_quiet()
    before, version = len(rig.calls()), rig.api.resource_version
    assert rig.manager is not None
    for _ in range(3):
        with rig.manager.lock:
            rig.manager.routing.queue_all()
        rig.until_quiet(0.1)
    assert len(rig.calls()) == before
    rig.skip(61.0)
    rig.until(lambda: len(rig.calls("get_firewall")) >= 2, "a read of the firewall")
    rig.until_quiet()
    assert {call.operation for call in rig.calls()[before:]} <= {"get_firewall", "list_addresses"}
    assert len(rig.calls()) <= before + 2
    assert rig.api.resource_version == version
