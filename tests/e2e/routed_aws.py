"""RoutedIPs on EC2: instances with groups of others, a security group with rules of others, and what the journal says.

Steps are told by the names of EC2's actions: with the ports of rules, ``+a`` or ``-a`` for an instance that got the
group or lost it, and the instance that an address came to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from flipop_aws_testserver import AWSEntry, Rule
from tests.controlplane.api import Document
from tests.support.faults import AFTER_EFFECT

from .aws import EAST, TAG, AWSWorld, EC2Node
from .routed import HTTPS, Node, Routed, Step

AUTHORIZE, REVOKE = "AuthorizeSecurityGroupIngress", "RevokeSecurityGroupIngress"
MODIFY = "ModifyNetworkInterfaceAttribute"
ALLOCATE, RELEASE = "AllocateAddress", "ReleaseAddress"
ASSOCIATE, DISASSOCIATE = "AssociateAddress", "DisassociateAddress"
CHANGES = (ALLOCATE, RELEASE, ASSOCIATE, DISASSOCIATE, AUTHORIZE, REVOKE, MODIFY)

EVERYBODY = ("0.0.0.0/0", "::/0")
MANAGED = {f"{TAG}managed": "true"}
SSH = Rule("tcp", 22, 22, "192.0.2.0/24", description="somebody else's")

CREATION = [ALLOCATE, f"{AUTHORIZE} {HTTPS}", f"{MODIFY} +a", f"{ASSOCIATE} a"]
CLOSING = [f"{REVOKE} {HTTPS}", f"{MODIFY} -a"]
DELETION = [DISASSOCIATE, RELEASE, *CLOSING]


def order_of_a_move(old: str, new: str) -> list[str]:
    """Return the steps of a move where the port is open already."""
    return [f"{MODIFY} +{new}", f"{ASSOCIATE} {new}", f"{MODIFY} -{old}"]


class RoutedAWS(Routed):
    """An issuer of an AWS account; ``group`` is made for it, with rules and an instance of somebody else.

    ``instances`` are those of the suffixes; each has two groups of others on its primary interface.
    """

    world: AWSWorld

    def __init__(self, world: AWSWorld, *suffixes: str, region: str = EAST, **issuer: Any) -> None:
        self.region = region
        self.account = world.aws.account
        self._foreign = self.account.add_instance(zone=f"{region}a")
        self._groups: dict[str, str] = {}
        self._rules: dict[str, dict[str, Rule]] = {}
        self._others: dict[str, list[str]] = {}
        self._present: dict[str, list[str]] = {}
        self._nodes: dict[str, EC2Node] = {}
        self._allocations: dict[str, str] = {}
        super().__init__(world, **{"provider": "aws", "region": region, **issuer})
        self.instances = [self.instance(suffix) for suffix in suffixes]

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes of the suffixes."""
        return self.instances

    # -- what the test makes -----------------------------------------------------------------------------------------

    def instance(self, suffix: str, *, groups: Sequence[str] = (), **more: Any) -> EC2Node:
        """Create a node that steps are told of by ``suffix``. ``groups`` are IDs, added beside those of others."""
        node = self.world.ec2_node(suffix, **{"zone": f"{self.region}a", **more})
        other = self.account.add_group(f"{node.name}-nodes", self.region)
        present = self.account.groups_of(node.instance.id, self.region)
        self._others[node.instance.interface_id] = sorted([*present, other])
        self._present[node.instance.interface_id] = [*present, other, *groups]
        self.account.put_groups(node.instance.id, [*present, other, *groups], self.region)
        self._nodes[suffix] = node
        return node

    def given(self) -> str:
        """Make an address of somebody else's making."""
        return self.world.address()

    def add_firewall(self, name: str) -> str:
        """Create a security group with rules of somebody else, on an instance of somebody else; return its ID."""
        group_id = self.account.add_group(name, self.region)
        self._groups[name] = group_id
        for rule in (SSH, Rule("-1", -1, -1, group_id=group_id)):
            self.add_rule(rule, name)
        foreign = self._foreign.id
        self.account.put_groups(foreign, [*self.account.groups_of(foreign, self.region), group_id], self.region)
        return group_id

    def add_rule(self, rule: Rule, firewall: str = "") -> str:
        """Let somebody else add a rule to a security group; return its ID."""
        group_id = self._groups[firewall or self.firewall]
        rule_id = self.account.add_rule(group_id, rule, self.region)
        self._rules.setdefault(group_id, {})[rule_id] = rule
        return rule_id

    def issue(self, name: str = "", **spec: Any) -> Document:
        """Create an issuer; a region that is empty is left out."""
        whole = {"provider": "aws", "region": self.region, **spec}
        return super().issue(name, **{**whole, "region": whole["region"] or None})

    # -- what the test sees ------------------------------------------------------------------------------------------

    def held(self) -> dict[str, str | None]:
        """Return all addresses of the account and what each is on."""
        return {address: self.holder(address) for address in self.world.on()}

    def rule_steps(self, since: float = 0.0) -> list[str]:
        """Return those of `steps` that opened or closed ports."""
        return [step for step in self.steps(since) if step.startswith((AUTHORIZE, REVOKE))]

    def holder(self, address: str) -> str | None:
        """Return the provider ID of the instance that an address is on."""
        if address not in self.account.addresses(self.region):
            return None
        self._allocations[self.account.allocation_id(address)] = address
        held = self.account.holder(address)
        return next((node.provider_id for node in self._nodes.values() if held and node.instance.id == held[0]), None)

    def rules(self, firewall: str = "") -> set[str]:
        """Return the ports that are open to everybody by rules with the project's tag; others' are as they were."""
        group_id = self._groups[firewall or self.firewall]
        found, tags = self.account.rules(group_id, self.region), self.account.rule_tags(group_id, self.region)
        theirs = self._rules[group_id]
        assert theirs.items() <= found.items(), "a rule of somebody else is gone"
        sources: dict[str, list[str]] = {}
        for rule_id in found.keys() - theirs.keys():
            rule = found[rule_id]
            assert tags[rule_id] == MANAGED
            assert rule.from_port == rule.to_port
            sources.setdefault(_port(rule), []).append(rule.cidr)
        assert all(tuple(sorted(each)) == EVERYBODY for each in sources.values()), sources
        return set(sources)

    def admitted(self, firewall: str = "") -> set[str]:
        """Return the nodes that have a security group; the groups of others have to be on all of them still."""
        wanted, project = self._groups[firewall or self.firewall], set(self._groups.values())
        assert wanted in self.account.groups_of(self._foreign.id, self.region)
        groups = {suffix: self.groups_of(suffix) for suffix in self._nodes}
        for suffix, present in groups.items():
            assert sorted(present - project) == self._others[self._nodes[suffix].instance.interface_id]
        return {suffix for suffix, present in groups.items() if wanted in present}

    def groups_of(self, suffix: str, device_index: int = 0) -> set[str]:
        """Return the groups of an instance's interface, by default the primary one."""
        return set(self.account.groups_of(self._nodes[suffix].instance.id, self.region, device_index))

    # -- checks ------------------------------------------------------------------------------------------------------

    def check_admission(self, needed: Mapping[str, Collection[str]] | None = None, firewall_id: str = "") -> None:
        """Replay the journal: no address ever was on an instance that the group was not on, or not open for.

        ``needed`` are the ports of each address, by default 443/TCP of each. A request that opens counts from its
        answer on, one that closes from its arrival on, and meanwhile an address is both where it was and where it goes.
        No request takes a group of others off an interface.
        """
        group_id = firewall_id or self.firewall_id
        openings = {each for rule in self._rules[group_id].values() for each in _openings(rule)}
        members = {eni for eni, present in self._present.items() if group_id in present}
        state = State(group_id, openings, members)
        moves = 0
        for event in sorted(self._events(), key=lambda each: each.time):
            state.apply(event)
            moves += event.verb == "reach"
            for allocation_id, interfaces in state.holders.items():
                ports = {HTTPS} if needed is None else set(needed[self._allocations[allocation_id]])
                wanted = {(port, source) for port in ports for source in EVERYBODY}
                assert wanted <= state.openings, f"{event} left {wanted - state.openings} closed"
                assert interfaces <= state.members, f"{event}, while {interfaces - state.members} has no group"
        assert moves, "there was no move to check"
        for entry in self._changes():
            if entry.action == f"ec2:{MODIFY}":
                others = self._others[entry.parameters["NetworkInterfaceId"]]
                assert set(others) <= set(_members(entry, "SecurityGroupId"))

    # -- the journal -------------------------------------------------------------------------------------------------

    def _changes(self) -> list[AWSEntry]:
        """Return the requests that change something of this test: of the one before, some may be late."""
        names = {f"ec2:{name}" for name in CHANGES}
        return [entry for entry in self.world.calls() if entry.action in names and self._is_own(entry)]

    def _is_own(self, entry: AWSEntry) -> bool:
        named = entry.parameters.get("GroupId") or entry.parameters.get("NetworkInterfaceId")
        if named is None and entry.action == f"ec2:{ALLOCATE}":
            return str(entry.parameters["TagSpecification.1.Tag.1.Value"]).startswith(f"{self.world.namespace}/")
        return named is None or named in self._groups.values() or named in self._present

    def _suffix(self, interface_id: str) -> str:
        return next(key for key, node in self._nodes.items() if node.instance.interface_id == interface_id)

    def _steps(self) -> list[Step]:
        present = {eni: set(groups) for eni, groups in self._present.items()}
        steps = []
        for entry in self._changes():
            name, effective = entry.action.removeprefix("ec2:"), _is_effective(entry)
            items: set[str] = set()
            group_id = str(entry.parameters.get("GroupId", ""))
            if name in {AUTHORIZE, REVOKE}:
                items = {port for port, _ in self._openings_of(entry)}
            elif name == ASSOCIATE:
                items = {self._suffix(entry.parameters["NetworkInterfaceId"])}
            elif name == MODIFY:
                eni, wanted = entry.parameters["NetworkInterfaceId"], set(_members(entry, "SecurityGroupId"))
                changed = dict.fromkeys(wanted - present[eni], "+")
                changed |= dict.fromkeys(present[eni] - wanted, "-")
                items = {f"{sign}{self._suffix(eni)}" for sign in changed.values()}
                group_id = next(iter(changed), self.firewall_id)
                assert len(changed) <= 1, changed
                present[eni] = wanted if effective else present[eni]
            steps.append(Step(name, frozenset(items), group_id, "", entry.time, effective))
        return steps

    def _openings_of(self, entry: AWSEntry) -> set[tuple[str, str]]:
        """Return port and source of each rule that a request adds or removes."""
        if entry.action == f"ec2:{REVOKE}":
            rules = [self.account.rule_made(rule_id) for rule_id in _members(entry, "SecurityGroupRuleId")]
            return {each for rule in rules for each in _openings(rule)}
        return set(_authorized(entry.parameters))

    def _events(self) -> Iterator[Event]:
        for entry in filter(_is_effective, self._changes()):
            start, end = entry.time, entry.ended or entry.time
            name, parameters = entry.action.removeprefix("ec2:"), entry.parameters
            eni, group_id = str(parameters.get("NetworkInterfaceId", "")), str(parameters.get("GroupId", ""))
            if name == AUTHORIZE:
                yield Event(end, "open", group_id, frozenset(self._openings_of(entry)))
            elif name == REVOKE:
                yield Event(start, "close", group_id, frozenset(self._openings_of(entry)))
            elif name == MODIFY:
                groups = frozenset(_members(entry, "SecurityGroupId"))
                yield Event(start, "shrink", eni, groups)
                yield Event(end, "grow", eni, groups)
            elif name == ASSOCIATE:
                yield Event(start, "reach", parameters["AllocationId"], frozenset({eni}))
                yield Event(end, "leave", parameters["AllocationId"], frozenset({eni}))
            elif name == DISASSOCIATE:
                yield Event(end, "off", self.account.allocation_of(parameters["AssociationId"]), frozenset())


class Event(NamedTuple):
    """A part of a request's effect. ``what`` is a group, an interface or an allocation; ``time`` monotonic seconds."""

    time: float
    verb: str
    what: str
    items: frozenset[Any]


class State(msgspec.Struct):
    """What a group is open for (port and source), on which interfaces it is, and where each allocation is."""

    group_id: str
    openings: set[tuple[str, str]]
    members: set[str]
    holders: dict[str, frozenset[str]] = {}

    def apply(self, event: Event) -> None:
        """Change the state by an event; those of other groups change nothing."""
        match event.verb:
            case "open" if event.what == self.group_id:
                self.openings |= event.items
            case "close" if event.what == self.group_id:
                self.openings -= event.items
            case "shrink" if self.group_id not in event.items:
                self.members.discard(event.what)
            case "grow" if self.group_id in event.items:
                self.members.add(event.what)
            case "reach":
                self.holders[event.what] = self.holders.get(event.what, frozenset()) | event.items
            case "leave":
                self.holders[event.what] = event.items
            case "off":
                self.holders.pop(event.what, None)


def instance_of(node: Node) -> str:
    """Return the ID of the instance that a node is on."""
    return node.provider_id.rpartition("/")[2]


def _is_effective(entry: AWSEntry) -> bool:
    return entry.outcome == "ok" if not entry.fault else entry.fault in AFTER_EFFECT


def _members(entry: AWSEntry, name: str) -> list[str]:
    return [str(value) for key, value in entry.parameters.items() if key.startswith(f"{name}.")]


def _port(rule: Rule) -> str:
    return f"{rule.from_port}/{rule.protocol.upper()}"


def _openings(rule: Rule) -> Iterator[tuple[str, str]]:
    """Return port and source of a rule from a CIDR for a single port."""
    if rule.cidr:
        yield _port(rule), rule.cidr


def _authorized(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, source in parameters.items():
        start, _, field = key.rpartition(".")
        if field in {"CidrIp", "CidrIpv6"}:
            permission = ".".join(start.split(".")[:2])
            assert parameters[f"{permission}.FromPort"] == parameters[f"{permission}.ToPort"]
            yield f"{parameters[f'{permission}.FromPort']}/{parameters[f'{permission}.IpProtocol'].upper()}", source
