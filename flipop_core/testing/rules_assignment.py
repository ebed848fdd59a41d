"""Conformance rules of describe, list_addresses, assign, unassign and delete."""

from __future__ import annotations

from collections.abc import Callable

from flipop_core.errors import Busy, NodeInUse, NotFound, ProviderError, Rejected
from flipop_core.model import Applied, InProgress, MutationResult
from flipop_core.testing.harness import (
    MOST_PER_NODE,
    IPProviderHarness,
    assign,
    attempt,
    eventually,
    everything,
    expect,
    expect_equal,
    holds,
    node_capacity,
    not_exercised,
    raises,
    record_of,
    succeeds,
)

STALE_SECONDS = 5.0
"""How long a read may lag behind an accepted operation. The controller takes it for failed after that."""


def _applied(call: Callable[[], MutationResult], rule: str) -> None:
    expect_equal(succeeds(call, rule), Applied(), rule)


class AssignmentRules:
    """Rules of describe, list_addresses, assign, unassign and delete."""

    def test_assign_puts_the_address_on_the_node(self, harness: IPProviderHarness) -> None:
        """An assigned address is on its node, and both reads say so."""
        address, (node,) = harness.make_address(), harness.node_ids(1)
        result = harness.provider.assign(address, node)
        expect(isinstance(result, Applied | InProgress), f"assign answers Applied or InProgress, not {result!r}")
        holds(harness, address, node, "assign")

    def test_repeated_assign_is_applied(self, harness: IPProviderHarness) -> None:
        """Assigning what is already so is Applied and changes nothing."""
        address, (node,) = harness.make_address(), harness.node_ids(1)
        assign(harness, address, node)
        _applied(lambda: harness.provider.assign(address, node), "assigning what is already so is Applied")
        holds(harness, address, node, "a repeated assign")

    def test_reassign_moves_the_address(self, harness: IPProviderHarness) -> None:
        """An address moves to another node: by assign alone if atomic_reassign is declared, else after unassign."""
        address, (first, second) = harness.make_address(), harness.node_ids(2)
        assign(harness, address, first)
        if not harness.provider.capabilities.atomic_reassign:
            harness.provider.unassign(address)
            holds(harness, address, None, "unassign before assign")
        succeeds(lambda: harness.provider.assign(address, second), "an address can be assigned to another node")
        holds(harness, address, second, "reassign")

    def test_unassign_takes_the_address_off(self, harness: IPProviderHarness) -> None:
        """An unassigned address is on no node, and stays in the account."""
        address, (node,) = harness.make_address(), harness.node_ids(1)
        assign(harness, address, node)
        harness.provider.unassign(address)
        holds(harness, address, None, "unassign")

    def test_unassign_of_unassigned_is_applied(self, harness: IPProviderHarness) -> None:
        """Unassigning what is unassigned is Applied."""
        address = harness.make_address()
        _applied(lambda: harness.provider.unassign(address), "unassigning what is unassigned is Applied")
        holds(harness, address, None, "a needless unassign")

    def test_delete_removes_the_address(self, harness: IPProviderHarness) -> None:
        """A deleted address is gone, others stay, and deleting it again is Applied."""
        address, other = harness.make_address(), harness.make_address()
        harness.provider.delete(address)
        provider = harness.provider
        eventually(harness, lambda: record_of(harness, address), lambda record: record is None, "delete removes it")
        expect(address not in provider.list_addresses([address]), f"deleted {address} is absent from list_addresses")
        _applied(lambda: provider.delete(address), "deleting what is gone is Applied")
        expect(record_of(harness, other) is not None, f"deleting {address} leaves {other}")

    def test_unknown_address_is_absent(self, harness: IPProviderHarness) -> None:
        """A read has no record for an address that does not exist, and has those asked for along with it."""
        unknown, known = harness.unknown_address(), harness.make_address()
        described = harness.provider.describe([unknown, known])
        listed = harness.provider.list_addresses([unknown, known])
        for method, records in (("describe", described), ("list_addresses", listed)):
            expect(unknown not in records, f"{method} has no record for unknown {unknown}")
            expect(known in records and records[known].address == known, f"{method} has a record for {known}")

    def test_unknown_address_is_not_found(self, harness: IPProviderHarness) -> None:
        """Assigning or unassigning an address that does not exist raises NotFound; deleting it is Applied."""
        unknown, (node,) = harness.unknown_address(), harness.node_ids(1)
        provider = harness.provider
        raises(NotFound, lambda: provider.assign(unknown, node), "assigning an unknown address is NotFound")
        raises(NotFound, lambda: provider.unassign(unknown), "unassigning an unknown address is NotFound")
        _applied(lambda: provider.delete(unknown), "deleting an unknown address is Applied")

    def test_unknown_node_is_not_found(self, harness: IPProviderHarness) -> None:
        """Assigning to a node that does not exist raises NotFound."""
        address, node = harness.make_address(), harness.unknown_node_id()
        if node is None:
            not_exercised("the harness knows no well-formed ID of a node that does not exist")
        raises(NotFound, lambda: harness.provider.assign(address, node), "assigning to an unknown node is NotFound")
        holds(harness, address, None, "assigning to an unknown node")

    def test_foreign_provider_id_is_rejected(self, harness: IPProviderHarness) -> None:
        """A provider ID that is not this provider's raises Rejected, which names it."""
        address, foreign = harness.make_address(), harness.foreign_node_id()
        error = raises(Rejected, lambda: harness.provider.assign(address, foreign), "a foreign provider ID is Rejected")
        expect(foreign in str(error), f"Rejected names the provider ID {foreign!r}: {error}")
        holds(harness, address, None, "assigning to a foreign provider ID")

    def test_other_region_is_rejected(self, harness: IPProviderHarness) -> None:
        """An address tells its region; on a node of another one it is Rejected, and stays where it was."""
        address, elsewhere = harness.make_address(), harness.other_region_node_id()
        if elsewhere is None:
            not_exercised("the harness has no node of another region")
        raises(Rejected, lambda: harness.provider.assign(address, elsewhere), "another region is Rejected")
        holds(harness, address, None, "assigning to another region")
        for operation, records in (
            ("describe", harness.provider.describe([address])),
            ("list_addresses", harness.provider.list_addresses([address])),
        ):
            expect_equal(records[address].region, harness.region, f"the region that {operation} tells of {address}")

    def test_full_node_is_in_use(self, harness: IPProviderHarness) -> None:
        """A node takes exactly max_ips_per_node addresses; one more raises NodeInUse and moves nothing."""
        (node,) = harness.node_ids(1)
        declared = harness.provider.capabilities.max_ips_per_node
        held = [harness.make_address() for _ in range(min(declared, MOST_PER_NODE))]
        for address in held:
            assign(harness, address, node)
        capacity = node_capacity(harness)  # of very many, these are all that are tried
        surplus = harness.make_address()
        raises(NodeInUse, lambda: harness.provider.assign(surplus, node), f"{capacity} addresses fill the node")
        holds(harness, surplus, None, "assigning to a full node")
        for address in held:
            holds(harness, address, node, "assigning to a full node")

    def test_reads_see_foreign_changes(self, harness: IPProviderHarness) -> None:
        """A read shows what others did since the last one: it does not answer from a cache."""
        address, (first, second) = harness.make_address(), harness.node_ids(2)
        assign(harness, address, first)
        if not harness.change_behind_back(address, second):
            not_exercised("the harness cannot move an address without the provider")
        holds(harness, address, second, "a foreign change is seen")
        harness.change_behind_back(address, None)
        holds(harness, address, None, "a foreign change is seen")

    def test_whole_account_is_listed(self, harness: IPProviderHarness) -> None:
        """Without being asked for one, list_addresses has the assigned addresses and who holds them."""
        addresses, nodes = [harness.make_address() for _ in range(2)], harness.node_ids(2)
        for address, node in zip(addresses, nodes, strict=True):
            assign(harness, address, node)
        listed = everything(harness.provider)
        for address, node in zip(addresses, nodes, strict=True):
            expect(address in listed, f"list_addresses has assigned {address} unasked")
            expect_equal(listed[address].provider_id, node, f"list_addresses knows who holds {address}")

    def test_operation_in_progress_settles(self, harness: IPProviderHarness) -> None:
        """An accepted operation shows as in_progress until its effect shows; meanwhile another one is Busy."""
        address, (first, second) = harness.make_address(), harness.node_ids(2)
        result = harness.provider.assign(address, first)
        record = eventually(
            harness,
            lambda: record_of(harness, address),
            lambda record: record is not None and (record.in_progress or record.provider_id == first),
            "an accepted operation shows as in_progress or has had its effect",
            limit_seconds=STALE_SECONDS,
        )
        if isinstance(result, InProgress):
            expect(result.poll_after_seconds > 0, "poll_after_seconds is positive")
            expect(result.token != "", "an operation in progress has a token")
        if record is not None and record.in_progress:
            # The operation may end before the second one arrives; any refusal but Busy is wrong all the same.
            answer = attempt(lambda: harness.provider.assign(address, second))
            allowed = isinstance(answer, Applied | InProgress | Busy)
            if not harness.provider.capabilities.atomic_reassign:
                allowed = allowed or isinstance(answer, Rejected)
            expect(allowed, f"a second operation on {address} is Busy, not {answer!r}")
            target = first if isinstance(answer, ProviderError) else second
        else:
            target = first
        holds(harness, address, target, "an operation in progress settles")
        settled = record_of(harness, address)
        expect(settled is not None and not settled.in_progress, f"settled {address} is not in_progress")
