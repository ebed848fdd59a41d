"""Conformance rules of `FirewallProvider`: what a firewall lets through after a call, and what nobody may touch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from flipop_core.errors import NotFound, QuotaExceeded, Rejected
from flipop_core.model import Applied, InProgress
from flipop_core.providers import Firewall, FirewallProvider, FirewallRule
from flipop_core.testing.firewall_harness import (
    FirewallProviderHarness,
    changed,
    is_so,
    narrow_rule,
    openings,
    persistently,
    rule,
    settled,
)
from flipop_core.testing.harness import all_at_once, expect, expect_equal, not_exercised, raises, succeeds

HTTP, HTTPS, DNS, SSH, FIRST, LAST = 80, 443, 53, 22, 8000, 8100
NODE_PORTS = (30000, 30080, 32767)
"""Some of the ports that Kubernetes gives to services by default, the first and the last among them."""

THREADS = 8


class FirewallRules:
    """Rules of get_firewall, add_rules, remove_rules, add_nodes and remove_nodes."""

    def test_firewall_capabilities_are_constant(self, harness: FirewallProviderHarness) -> None:
        """The capabilities can be read without a call, are sound, and stay the same."""
        provider = harness.provider
        expect(isinstance(provider, FirewallProvider), f"{type(provider).__name__} has every method of its protocol")
        before = provider.capabilities
        expect(before.max_concurrency >= 1, f"max_concurrency is positive: {before!r}")
        provider.get_firewall(harness.make_firewall())
        expect_equal(provider.capabilities, before, "capabilities are constant for the life of the object")

    def test_platform_opens_node_ports(self, harness: FirewallProviderHarness) -> None:
        """With opens_node_ports declared, node ports are open before any rule, and stay so after rules come and go."""
        if not harness.provider.capabilities.opens_node_ports:
            not_exercised("the provider does not declare opens_node_ports")
        node = harness.platform_node_id()
        if node is None or harness.admits(node, rule(harness, NODE_PORTS[0])) is None:
            not_exercised("the harness has no node of the platform's, or cannot tell what is in effect")
        ports = [rule(harness, port, protocol) for port in NODE_PORTS for protocol in ("tcp", "udp")]
        name = harness.make_firewall([rule(harness, SSH)])

        def expect_open(when: str) -> None:
            for each in ports:
                expect(harness.admits(node, each) is True, f"{each.protocol} {each.port} is open on {node} {when}")

        expect_open("without a rule of anybody")
        change_nodes(harness, name, add=[node])
        change_rules(harness, name, add=[rule(harness, HTTP)], remove=[rule(harness, HTTP)])
        expect_open("with another firewall, whose rules came and went")
        change_nodes(harness, name, remove=[node])
        expect_open("after another firewall has left it")

    def test_firewall_is_read_by_name_and_id(self, harness: FirewallProviderHarness) -> None:
        """A firewall is found by its name and by its ID among others, with its rules and nodes, both sorted."""
        nodes = harness.node_ids(3)
        rules = [narrow_rule(harness, FIRST, end_port=LAST), rule(harness, SSH), rule(harness, DNS, "udp")]
        harness.make_firewall([rule(harness, HTTP)], nodes[:1])
        name = harness.make_firewall(rules, [nodes[2], nodes[0]])
        by_name = harness.provider.get_firewall(name)
        by_id = succeeds(partial(harness.provider.get_firewall, by_name.id), "the firewall is found by its ID")
        expect_equal(by_id, by_name, "the firewall read by its ID")
        expect_equal(by_name.name, name, "its name")
        expect_equal(list(by_name.provider_ids), sorted([nodes[0], nodes[2]]), "its nodes, sorted")
        expect_equal(openings(by_name.rules), openings(rules), "its rules")
        expect(not by_name.in_progress, f"nothing is under way: {by_name!r}")
        for read in by_name.rules:
            expect_equal(read.sources, tuple(sorted(read.sources)), "the sources of a rule, sorted")

    def test_unknown_firewall_is_not_found(self, harness: FirewallProviderHarness) -> None:
        """Every call about a firewall that does not exist raises NotFound, which names it."""
        unknown, (node,) = harness.unknown_firewall(), harness.node_ids(1)
        read = harness.provider.get_firewall
        for name in (unknown.name, unknown.id):
            error = raises(NotFound, partial(read, name), f"get_firewall of unknown {name}")
            expect(name in str(error), f"NotFound names {name}: {error}")
        for operation, call in changes(harness, unknown, rule(harness, HTTP), node).items():
            error = raises(NotFound, call, f"{operation} of an unknown firewall is NotFound")
            expect(unknown.id in str(error) or unknown.name in str(error), f"NotFound names the firewall: {error}")

    def test_several_firewalls_of_a_name_are_rejected(self, harness: FirewallProviderHarness) -> None:
        """A name that several firewalls have raises Rejected, which names it; by its ID each is still found."""
        name = harness.make_firewall()
        one = harness.provider.get_firewall(name)
        if not harness.make_namesake(name):
            not_exercised("the harness cannot make two firewalls of one name")
        error = raises(Rejected, lambda: harness.provider.get_firewall(name), "a name that two firewalls have")
        expect(name in str(error), f"Rejected names {name}: {error}")
        by_id = succeeds(partial(harness.provider.get_firewall, one.id), "one of them is found by its ID")
        expect_equal(by_id.id, one.id, "one of them by its ID")

    def test_added_rules_are_read(self, harness: FirewallProviderHarness) -> None:
        """Rules that were added read back exactly as they were given, beside those of others for the same port."""
        theirs = [narrow_rule(harness, HTTP), rule(harness, SSH)]
        ours = [rule(harness, HTTP), rule(harness, HTTPS), rule(harness, HTTPS, "udp"), narrow_rule(harness, DNS)]
        name = harness.make_firewall(theirs)
        change_rules(harness, name, add=ours[:1])
        change_rules(harness, name, add=ours[1:])
        is_so(harness, name, "rules were added", rules=theirs + ours)
        read = settled(harness, name).rules
        for each in ours:
            expect(each in read, f"{each!r} is read as it was added, and is not among {read!r}")

    def test_rules_added_again_are_no_error(self, harness: FirewallProviderHarness) -> None:
        """Rules that are there are not added twice, and the new ones among them are added all the same."""
        theirs, ours, new = rule(harness, SSH), rule(harness, HTTP), rule(harness, HTTPS)
        name = harness.make_firewall([theirs])
        change_rules(harness, name, add=[ours])
        change_rules(harness, name, add=[ours])
        is_so(harness, name, "a rule was added again", rules=[theirs, ours])
        change_rules(harness, name, add=[theirs, new, ours, new])
        is_so(harness, name, "rules were added of which some are there", rules=[theirs, ours, new])

    def test_removed_rules_are_gone(self, harness: FirewallProviderHarness) -> None:
        """Exactly the given rules are removed: those of others, for the same port too, and the nodes stay."""
        nodes = harness.node_ids(2)
        theirs = [narrow_rule(harness, HTTP), rule(harness, HTTP, end_port=HTTP + 5), rule(harness, SSH)]
        ours = [rule(harness, HTTP), rule(harness, HTTPS), rule(harness, DNS)]
        name = harness.make_firewall(theirs, nodes)
        change_rules(harness, name, add=ours)
        change_rules(harness, name, remove=ours[:2])
        is_so(harness, name, "rules were removed", rules=[*theirs, ours[2]], nodes=nodes)
        change_rules(harness, name, remove=ours)
        is_so(harness, name, "all our rules were removed", rules=theirs, nodes=nodes)

    def test_marked_rules_of_others_stay(self, harness: FirewallProviderHarness) -> None:
        """Where the provider marks its rules, one of somebody else stays even if it is asked to be removed."""
        if not harness.marks_rules:
            not_exercised("the provider does not mark its rules")
        theirs = rule(harness, HTTP)
        name = harness.make_firewall([theirs])
        change_rules(harness, name, add=[theirs, rule(harness, HTTPS)])
        change_rules(harness, name, remove=[theirs, rule(harness, HTTPS)])
        is_so(harness, name, "a rule of somebody else was to be removed", rules=[theirs])

    def test_removing_what_is_gone_is_applied(self, harness: FirewallProviderHarness) -> None:
        """What is not there, and nothing at all, is removed and added as Applied, without any effect."""
        node, other = harness.node_ids(2)
        theirs = [rule(harness, SSH)]
        name = harness.make_firewall(theirs, [node])
        provider, firewall = harness.provider, harness.provider.get_firewall(name)
        calls: dict[str, Callable[[], object]] = {
            "removing a rule that is gone": lambda: provider.remove_rules(firewall, [rule(harness, HTTP)]),
            "removing a node that is gone": lambda: provider.remove_nodes(firewall, [other]),
            "adding a node that is there": lambda: provider.add_nodes(firewall, [node]),
            "adding a rule that is there": lambda: provider.add_rules(firewall, theirs),
            "adding no rule": lambda: provider.add_rules(firewall, []),
            "removing no node": lambda: provider.remove_nodes(firewall, []),
        }
        for what, call in calls.items():
            expect_equal(succeeds(call, what), Applied(), what)
            is_so(harness, name, what, rules=theirs, nodes=[node])

    def test_protocols_are_told_apart(self, harness: FirewallProviderHarness) -> None:
        """TCP and UDP on one port are two rules: each is added and removed by itself."""
        tcp, udp = rule(harness, DNS), rule(harness, DNS, "udp")
        name = harness.make_firewall([rule(harness, SSH)])
        change_rules(harness, name, add=[tcp, udp])
        is_so(harness, name, "both protocols were added", rules=[rule(harness, SSH), tcp, udp])
        change_rules(harness, name, remove=[tcp])
        is_so(harness, name, "TCP was removed", rules=[rule(harness, SSH), udp])
        change_rules(harness, name, add=[tcp], remove=[udp])
        is_so(harness, name, "UDP was removed", rules=[rule(harness, SSH), tcp])

    def test_unusable_rules_are_rejected(self, harness: FirewallProviderHarness) -> None:
        """Ports that do not exist, other protocols, and sources that are no CIDRs raise Rejected, without effect."""
        name = harness.make_firewall([rule(harness, SSH)])
        firewall, good = harness.provider.get_firewall(name), rule(harness, HTTP)
        unusable = [rule(harness, 0), rule(harness, 65536), rule(harness, LAST, end_port=FIRST)]
        unusable += [rule(harness, HTTP, "icmp"), FirewallRule("tcp", HTTP, 0, ("everywhere",))]
        unusable.append(FirewallRule("tcp", HTTP, 0, ()))
        for each in unusable:
            raises(Rejected, partial(harness.provider.add_rules, firewall, [good, each]), f"{each!r} is Rejected")
            is_so(harness, name, "an unusable rule was added", rules=[rule(harness, SSH)])

    def test_added_nodes_are_read(self, harness: FirewallProviderHarness) -> None:
        """The firewall then applies to the nodes too: one or several, once each, whatever is there already."""
        nodes = harness.node_ids(4)
        name = harness.make_firewall([rule(harness, HTTP)], nodes[:1])
        for added in (nodes[1:2], nodes[1:3], [nodes[3], nodes[0], nodes[3]]):
            change_nodes(harness, name, add=added)
        is_so(harness, name, "nodes were added", rules=[rule(harness, HTTP)], nodes=nodes)

    def test_removed_nodes_are_gone(self, harness: FirewallProviderHarness) -> None:
        """The firewall no longer applies to exactly these nodes; its rules and other nodes stay."""
        nodes = harness.node_ids(4)
        name = harness.make_firewall([rule(harness, HTTP)], nodes)
        change_nodes(harness, name, remove=[nodes[2], nodes[0]])
        is_so(harness, name, "nodes were removed", rules=[rule(harness, HTTP)], nodes=[nodes[1], nodes[3]])
        change_nodes(harness, name, remove=nodes[:2])
        change_nodes(harness, name, add=[nodes[0]])
        is_so(harness, name, "nodes were removed and added again", nodes=[nodes[0], nodes[3]])
        change_nodes(harness, name, remove=nodes)
        is_so(harness, name, "all nodes were removed", rules=[rule(harness, HTTP)], nodes=[])

    def test_other_firewalls_of_a_node_stay(self, harness: FirewallProviderHarness) -> None:
        """A firewall that comes to a node, or leaves it, does not touch the node's others."""
        (node,) = harness.node_ids(1)
        other = harness.make_firewall([rule(harness, SSH)], [node])
        name = harness.make_firewall([rule(harness, HTTP)])
        change_nodes(harness, name, add=[node])
        for firewall in (name, other):
            is_so(harness, firewall, "a second firewall came to the node", nodes=[node])
        change_nodes(harness, name, remove=[node])
        is_so(harness, other, "one of two firewalls left the node", rules=[rule(harness, SSH)], nodes=[node])

    def test_foreign_node_id_of_a_firewall_is_rejected(self, harness: FirewallProviderHarness) -> None:
        """A malformed provider ID, or one of another cloud, raises Rejected, which names it, without effect."""
        foreign, (node, other) = harness.foreign_node_id(), harness.node_ids(2)
        name = harness.make_firewall([rule(harness, HTTP)], [node])
        firewall = harness.provider.get_firewall(name)
        for change, given in ((harness.provider.add_nodes, other), (harness.provider.remove_nodes, node)):
            error = raises(Rejected, partial(change, firewall, [given, foreign]), f"{foreign!r} is Rejected")
            expect(foreign in str(error), f"Rejected names {foreign!r}: {error}")
        is_so(harness, name, "a foreign provider ID", nodes=[node])

    def test_unknown_node_of_a_firewall(self, harness: FirewallProviderHarness) -> None:
        """Adding a node that does not exist raises NotFound, which names it; removing it is no error."""
        unknown = harness.unknown_node_id()
        if unknown is None:
            not_exercised("the harness has no provider ID of a node that does not exist")
        name = harness.make_firewall([rule(harness, HTTP)])
        firewall, provider = harness.provider.get_firewall(name), harness.provider
        error = raises(NotFound, lambda: provider.add_nodes(firewall, [unknown]), "adding an unknown node")
        expect(unknown in str(error), f"NotFound names {unknown}: {error}")
        removal = partial(provider.remove_nodes, firewall, [unknown])
        expect_equal(succeeds(removal, "removing an unknown node"), Applied(), "removing an unknown node")
        is_so(harness, name, "an unknown node", nodes=[])

    def test_only_name_and_id_are_relied_on(self, harness: FirewallProviderHarness) -> None:
        """What else a firewall argument says may be out of date: it changes nothing of what is done."""
        nodes, ours = harness.node_ids(3), [rule(harness, HTTP), rule(harness, HTTPS)]
        name = harness.make_firewall([rule(harness, SSH)], nodes[:1])
        now = harness.provider.get_firewall(name)
        provider, bare = harness.provider, Firewall(now.id, now.name)
        full = Firewall(now.id, now.name, tuple(ours), tuple(sorted(nodes)))
        steps: list[Callable[[], object]] = [
            lambda: provider.add_rules(full, ours),
            lambda: provider.add_nodes(full, nodes[1:]),
            lambda: provider.remove_rules(bare, ours[:1]),
            lambda: provider.remove_nodes(bare, nodes[:1]),
        ]
        for step in steps:
            changed(step, "a change by a stale reading")
            settled(harness, name)
        is_so(harness, name, "stale readings", rules=[rule(harness, SSH), ours[1]], nodes=nodes[1:])

    def test_firewall_reads_see_foreign_changes(self, harness: FirewallProviderHarness) -> None:
        """What others did since the last call is seen by a read, and mended by a change."""
        ours, theirs = rule(harness, HTTP), rule(harness, SSH)
        name = harness.make_firewall([theirs])
        change_rules(harness, name, add=[ours])
        harness.put_rules(name, [narrow_rule(harness, HTTPS)])
        is_so(harness, name, "others changed the rules", rules=[narrow_rule(harness, HTTPS)])
        change_rules(harness, name, add=[ours])
        is_so(harness, name, "the change was mended", rules=[narrow_rule(harness, HTTPS), ours])

    def test_other_kinds_of_rules_stay(self, harness: FirewallProviderHarness) -> None:
        """Rules that are none from CIDRs, outbound ones among them, are left out of the reading and left alone."""
        node, ours = harness.node_ids(1)[0], [rule(harness, HTTP), rule(harness, DNS, "udp")]
        name = harness.make_firewall([rule(harness, SSH)])
        if not harness.put_other_rules(name):
            not_exercised("the harness cannot make rules by other sources")
        before = harness.other_rules(name)
        expect(bool(before), f"the harness tells the other rules: {before!r}")
        is_so(harness, name, "rules by other sources", rules=[rule(harness, SSH)])
        change_rules(harness, name, add=ours)
        change_nodes(harness, name, add=[node])
        is_so(harness, name, "rules beside others", rules=[rule(harness, SSH), *ours], nodes=[node])
        change_rules(harness, name, remove=ours)
        change_nodes(harness, name, remove=[node])
        is_so(harness, name, "rules beside others", rules=[rule(harness, SSH)], nodes=[])
        expect_equal(harness.other_rules(name), before, "rules by other sources")

    def test_nothing_counts_before_it_is_in_effect(self, harness: FirewallProviderHarness) -> None:
        """A rule or node is told without ``in_progress`` only once traffic gets through, however it was changed."""
        (node, other), ours = harness.node_ids(2), rule(harness, HTTP)
        name = harness.make_firewall([rule(harness, SSH)], [other])
        if harness.admits(other, rule(harness, SSH)) is None:
            not_exercised("the harness cannot tell what is in effect")
        provider, firewall = harness.provider, harness.provider.get_firewall(name)
        calls: list[Callable[[], object]] = [
            partial(provider.add_rules, firewall, [ours]),
            partial(provider.add_nodes, firewall, [node]),
        ]
        for call in calls:
            answer = call()
            read = provider.get_firewall(name)
            if isinstance(answer, Applied) or not read.in_progress:
                _expect_in_effect(harness, read, ours)
            _expect_in_effect(harness, settled(harness, name), ours)
        expect(harness.admits(node, ours) is True, "an added rule lets traffic through to an added node")

    def test_rule_limit_is_quota_exceeded(self, harness: FirewallProviderHarness) -> None:
        """A rule over the firewall's limit raises QuotaExceeded, and the rules stay as they are."""
        name = harness.make_firewall([rule(harness, SSH)])
        if not harness.exhaust_rules(name):
            not_exercised("the harness cannot exhaust the limit of rules")
        before, firewall = harness.state(name), harness.provider.get_firewall(name)
        over = partial(harness.provider.add_rules, firewall, [rule(harness, HTTP)])
        raises(QuotaExceeded, over, "a rule over the limit")
        is_so(harness, name, "a rule over the limit", rules=before.rules)

    def test_node_limit_is_quota_exceeded(self, harness: FirewallProviderHarness) -> None:
        """A node over the firewall's limit raises QuotaExceeded, and the nodes stay as they are."""
        (node,) = harness.node_ids(1)
        name = harness.make_firewall([rule(harness, SSH)])
        if not harness.exhaust_nodes(name):
            not_exercised("the harness cannot exhaust the limit of nodes")
        before, firewall = harness.state(name), harness.provider.get_firewall(name)
        raises(QuotaExceeded, partial(harness.provider.add_nodes, firewall, [node]), "a node over the limit")
        is_so(harness, name, "a node over the limit", nodes=before.provider_ids)

    def test_threads_on_a_firewall_lose_nothing(self, harness: FirewallProviderHarness) -> None:
        """Eight threads change one firewall at once: each change that is accepted is made; Busy ones are repeated."""
        nodes, theirs = harness.node_ids(THREADS), rule(harness, SSH)
        name = harness.make_firewall([theirs])
        firewall, provider = harness.provider.get_firewall(name), harness.provider
        ours = [rule(harness, FIRST + number) for number in range(THREADS // 2)]
        calls: list[Callable[[], object]] = [partial(provider.add_rules, firewall, [each]) for each in ours]
        calls += [partial(provider.add_nodes, firewall, [node]) for node in nodes[: THREADS // 2]]
        answers = all_at_once([partial(persistently, harness, call) for call in calls])
        for answer in answers:
            expect(isinstance(answer, Applied | InProgress), f"changing one firewall from eight threads: {answer!r}")
        is_so(harness, name, "eight threads at once", rules=[theirs, *ours], nodes=nodes[: THREADS // 2])


def changes(
    harness: FirewallProviderHarness,
    firewall: Firewall,
    rule_of_ours: FirewallRule,
    node: str,
    provider: FirewallProvider | None = None,
) -> dict[str, Callable[[], object]]:
    """Return a call of each mutation by its name; ``provider`` makes them, by default the harness's."""
    caller = provider or harness.provider
    return {
        "add_rules": lambda: caller.add_rules(firewall, [rule_of_ours]),
        "remove_rules": lambda: caller.remove_rules(firewall, [rule_of_ours]),
        "add_nodes": lambda: caller.add_nodes(firewall, [node]),
        "remove_nodes": lambda: caller.remove_nodes(firewall, [node]),
    }


def change_rules(
    harness: FirewallProviderHarness,
    name: str,
    *,
    add: list[FirewallRule] | None = None,
    remove: list[FirewallRule] | None = None,
) -> None:
    """Add and then remove rules, and wait each time until it is in effect."""
    firewall = harness.provider.get_firewall(name)
    for change, rules in ((harness.provider.add_rules, add), (harness.provider.remove_rules, remove)):
        if rules is not None:
            changed(partial(change, firewall, rules), f"{change.__name__} of {rules!r}")
            settled(harness, name)


def change_nodes(
    harness: FirewallProviderHarness, name: str, *, add: list[str] | None = None, remove: list[str] | None = None
) -> None:
    """Add and then remove nodes, and wait each time until it is in effect."""
    firewall = harness.provider.get_firewall(name)
    for change, nodes in ((harness.provider.add_nodes, add), (harness.provider.remove_nodes, remove)):
        if nodes is not None:
            changed(partial(change, firewall, nodes), f"{change.__name__} of {nodes!r}")
            settled(harness, name)


def _expect_in_effect(harness: FirewallProviderHarness, read: Firewall, ours: FirewallRule) -> None:
    for node in read.provider_ids if ours in read.rules else ():
        expect(harness.admits(node, ours) is True, f"{read!r} is told, and {ours!r} is not in effect on {node}")
