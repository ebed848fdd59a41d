"""Security groups of RoutedIPs: shared, named, missing, full, and what others have in them."""

from __future__ import annotations

import time

import pytest

from flipop_aws_testserver import Rule

from .aws import AWSWorld
from .routed import HTTPS
from .routed_aws import ASSOCIATE, AUTHORIZE, MODIFY, REVOKE, RoutedAWS, instance_of, order_of_a_move
from .test_routed_firewalls import MISSING_SECONDS

ARGUMENTS = ("--recheck-seconds", "2")
REPAIR_SECONDS = 80.0
"""What somebody else takes out of a firewall is seen when it is read again, after 60 s at most."""


@pytest.fixture
def world(running_aws: AWSWorld) -> AWSWorld:
    return running_aws


# -- by name and by ID -----------------------------------------------------------------------------------------------


def test_a_group_by_its_id_and_then_by_its_name_is_the_same(world: AWSWorld) -> None:
    """Nothing is closed for a moment: it is opened already."""
    routed = RoutedAWS(world, "a", "b")
    first, second = routed.instances
    routed.started(first, routedIPFirewallName=routed.firewall_id)
    assert routed.status()["firewall"] == routed.firewall_id
    assert (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"})
    begun = time.monotonic()
    routed.change(routedIPFirewallName=None)
    world.until(lambda: routed.status()["firewall"] == routed.firewall, "the name in the status")
    routed.until_closed()
    assert routed.steps(begun) == []
    routed.endpoints(second)
    routed.until_on(second)
    routed.until_closed()
    assert routed.steps(begun) == order_of_a_move("a", "b")
    routed.check_admission()


def test_a_name_that_two_vpcs_have_is_told_with_the_ids(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    other = world.aws.account.add_group(routed.firewall, vpc_id=world.aws.account.add_vpc())
    routed.service(node)
    routed.routed_ip()
    message = routed.until_reason("FirewallFailed")
    assert other in message
    assert routed.firewall_id in message
    routed.change(routedIPFirewallName=routed.firewall_id)
    routed.until_on(node)
    routed.check_admission()


def test_another_group_is_opened_before_the_former_one_is_closed(world: AWSWorld) -> None:
    new = f"{world.id}-new"
    routed = RoutedAWS(world, "a")
    routed.started(*routed.instances)
    begun = time.monotonic()
    identity = routed.add_firewall(new)
    routed.change_issuer(routedIPFirewallName=new)
    world.until(lambda: routed.status()["firewall"] == new, "the new group in the status")
    routed.until_closed()
    world.until(lambda: routed.rules() == set() == routed.admitted(), "the former group to be closed")
    assert (routed.rules(new), routed.admitted(new)) == ({HTTPS}, {"a"})
    assert routed.steps(begun) == [
        f"{AUTHORIZE} {HTTPS} elsewhere",
        f"{MODIFY} +a elsewhere",
        f"{REVOKE} {HTTPS}",
        f"{MODIFY} -a",
    ]
    assert routed.groups_of("a") >= {identity}


def test_a_group_of_another_vpc_is_told(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    vpc = world.aws.account.add_vpc()
    other = world.aws.account.add_group(f"{world.id}-other", vpc_id=vpc)
    routed.service(node)
    routed.routed_ip(routedIPFirewallName=other)
    message = routed.until_reason("FirewallFailed")
    assert vpc in message
    assert instance_of(node) in message
    assert not [step for step in routed.tried() if ASSOCIATE in step]
    routed.change(routedIPFirewallName=None)
    routed.until_on(node)
    routed.check_admission()
    world.until(lambda: world.aws.account.rules(other) == {}, "the other group to be closed")


# -- missing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["later", "sg-0123456789abcdef0"], ids=["name", "ID"])
def test_a_missing_group_is_told_and_no_address_is_associated(world: AWSWorld, missing: str) -> None:
    routed = RoutedAWS(world, "a", routedIPFirewallName=missing)
    (node,) = routed.instances
    address = world.address()
    routed.service(node)
    routed.routed_ip(routedIP=address)
    assert missing in routed.until_reason("FirewallNotFound")
    assert routed.condition(kind="Degraded")["status"] == "True"
    world.stays(lambda: world.on()[address], None, 2.5)
    assert routed.tried() == []
    routed.change_issuer(routedIPFirewallName=routed.firewall)
    routed.until_on(node)
    routed.check_admission()


def test_a_group_that_is_created_later_is_found(world: AWSWorld) -> None:
    name = f"{world.id}-later"
    routed = RoutedAWS(world, "a", routedIPFirewallName=name)
    (node,) = routed.instances
    routed.service(node)
    routed.routed_ip()
    routed.until_reason("FirewallNotFound")
    identity = routed.add_firewall(name)
    routed.until_on(node, timeout_seconds=MISSING_SECONDS)
    routed.check_admission(firewall_id=identity)
    assert routed.rules(name) == {HTTPS}


def test_with_post_allow_the_address_moves_first_group_or_not(world: AWSWorld) -> None:
    name = f"{world.id}-later"
    routed = RoutedAWS(world, "a", "b", routedIPFirewallName=name, firewallPostAllow=True)
    first, second = routed.instances
    address = world.address()
    routed.service(first)
    routed.routed_ip(routedIP=address)
    world.until(lambda: world.on()[address] == first.instance.id, "the address on the node")
    routed.until_reason("FirewallNotFound")
    routed.add_firewall(name)
    routed.change_issuer(perNodeIPLimit=1, nodePortRange="30000-30999")  # any edit: it is tried at once
    world.until(lambda: routed.admitted(name) == {"a"}, "the node to be admitted")
    routed.until_closed()
    steps = [f"{ASSOCIATE} a", f"{AUTHORIZE} {HTTPS} elsewhere", f"{MODIFY} +a elsewhere"]
    assert routed.steps() == steps
    routed.endpoints(second)
    routed.until_on(second)
    routed.until_closed()
    assert routed.steps()[3:] == [f"{ASSOCIATE} b", f"{MODIFY} +b elsewhere", f"{MODIFY} -a elsewhere"]


# -- what others have ------------------------------------------------------------------------------------------------


def test_rules_and_memberships_of_others_are_used_and_never_removed(world: AWSWorld) -> None:
    """A port that somebody else has opened to everybody, and an instance that had the group before."""
    routed = RoutedAWS(world, routedIPReclaimPolicy="Delete")
    node = routed.instance("a", groups=[routed.firewall_id])
    for source in ("0.0.0.0/0", "::/0"):
        routed.add_rule(Rule("tcp", 443, 443, source))
    routed.started(node)
    assert routed.steps() == ["AllocateAddress", f"{ASSOCIATE} a"]
    routed.delete()
    routed.until_gone()
    assert (routed.rules(), routed.admitted()) == (set(), {"a"})
    assert world.on() == {}
    routed.check_admission()


def test_of_a_port_that_others_have_half_open_only_the_other_half_is_made_and_removed(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a", routedIPReclaimPolicy="Delete")
    account, group_id = world.aws.account, routed.firewall_id
    routed.add_rule(Rule("tcp", 443, 443, "0.0.0.0/0"))
    before = account.rules(group_id)
    routed.started(*routed.instances)
    added = [rule for key, rule in account.rules(group_id).items() if key not in before]
    assert added == [Rule("tcp", 443, 443, "::/0")]
    routed.check_admission()
    routed.delete()
    routed.until_gone()
    assert account.rules(group_id) == before
    assert routed.admitted() == set()


def test_other_groups_and_other_interfaces_are_left_alone(world: AWSWorld) -> None:
    """Groups that came meanwhile, and the interface that the VPC CNI made."""
    routed = RoutedAWS(world)
    first, second = routed.instance("a", cni=True), routed.instance("b", cni=True)
    pods = routed.groups_of("a", 1)
    assert routed.firewall_id not in pods
    routed.started(first)
    late = world.aws.account.add_group(f"{world.id}-late")
    present = world.aws.account.groups_of(first.instance.id)
    world.aws.account.put_groups(first.instance.id, [*present, late])
    routed.endpoints(second)
    routed.until_on(second)
    routed.until_closed()
    assert routed.groups_of("a") == {*present, late} - {routed.firewall_id}
    assert routed.firewall_id in routed.groups_of("b")
    assert routed.groups_of("a", 1) == pods


def test_a_group_that_was_the_only_one_of_an_interface_stays_and_that_is_told(world: AWSWorld) -> None:
    """AWS demands a group on each interface: somebody took the others off meanwhile."""
    routed = RoutedAWS(world, "a", "b")
    first, second = routed.instances
    address = routed.started(first)
    present = world.aws.account.groups_of(first.instance.id)
    world.aws.account.put_groups(first.instance.id, [routed.firewall_id])
    routed.endpoints(second)
    world.until(lambda: world.on()[address] == second.instance.id, "the address to move")
    world.until(
        lambda: [note for note in routed.events("FirewallFailed") if first.provider_id in note],
        "an event that names the instance",
    )
    assert routed.groups_of("a") == {routed.firewall_id}
    world.aws.account.put_groups(first.instance.id, present)
    routed.change(match={})  # any edit: it is tried at once
    world.until(lambda: routed.admitted() == {"b"}, "the former node to lose the group", 20.0)


def test_what_somebody_removes_is_put_back(world: AWSWorld) -> None:
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    address = routed.started(node)
    account, group_id = world.aws.account, routed.firewall_id
    for rule_id, rule in account.rules(group_id).items():
        if rule.from_port == 443:
            account.remove_rule(group_id, rule_id)
    account.put_groups(node.instance.id, [each for each in account.groups_of(node.instance.id) if each != group_id])
    world.until(
        lambda: (routed.rules(), routed.admitted()) == ({HTTPS}, {"a"}), "rules and group to be back", REPAIR_SECONDS
    )
    routed.until_closed()
    assert world.on() == {address: node.instance.id}


# -- full ------------------------------------------------------------------------------------------------------------


def test_a_full_group_is_told_and_nothing_moves(world: AWSWorld) -> None:
    world.aws.settings.rules_per_group = 3
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    routed.service(node)
    routed.routed_ip()
    assert "RulesPerSecurityGroupLimitExceeded" in routed.until_reason("FirewallFailed")
    world.stays(lambda: set(world.on().values()) <= {None}, True, 1.0)
    world.aws.settings.rules_per_group = 4
    routed.change(match={})  # any edit: it is tried at once
    routed.until_on(node)
    routed.check_admission()


def test_an_interface_with_all_the_groups_it_may_have_is_told(world: AWSWorld) -> None:
    world.aws.settings.groups_per_interface = 2
    routed = RoutedAWS(world, "a")
    (node,) = routed.instances
    routed.service(node)
    routed.routed_ip()
    message = routed.until_reason("FirewallFailed")
    assert instance_of(node) in message
    assert "SecurityGroupsPerInterfaceLimitExceeded" in message
    world.stays(lambda: set(world.on().values()) <= {None}, True, 1.0)
    world.aws.settings.groups_per_interface = 5
    routed.change(match={})  # any edit: it is tried at once
    routed.until_on(node)
    routed.check_admission()
