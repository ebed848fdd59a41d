"""The scenario as data: what happens, why the controller does what it does, and when a step has come to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from flipop_core.demo.scene import NODES_RECORD, POOL_RECORD, Scene
from flipop_core.demo.stage import Stage


class Target(msgspec.Struct, frozen=True):
    """What a step is about. ``node`` is where it happens, ``address`` what is there, ``other`` another node."""

    node: str = ""
    address: str = ""
    other: str = ""


Pick = Callable[[Scene], Target]
Cause = Callable[[Stage, Target], None]
Settled = Callable[[Scene, Target], bool]


class Step(msgspec.Struct, frozen=True):
    """One thing that happens.

    ``title`` and ``why`` may name the target's fields in braces. ``settled`` tells when the controller has done its
    part; None when it is to do nothing. ``finds`` names the target's field with the node that the provider is to show
    for the address before the controller acts: then that read belongs to the story. ``spares`` names the record set
    that nothing may be written to.
    """

    title: str
    why: str
    pick: Pick
    cause: Cause
    settled: Settled | None = None
    finds: Literal["", "node", "other"] = ""
    spares: str = ""


# -- what a step is about --------------------------------------------------------------------------------------------


def nothing(scene: Scene) -> Target:
    """Pick nothing in particular."""
    del scene
    return Target()


def holder_of(pool: str, index: int = 0) -> Pick:
    """Pick an active address of a pool, by default the first, and its node."""

    def pick(scene: Scene) -> Target:
        row = scene.active(pool)[index]
        return Target(node=row.node, address=row.address)

    return pick


def holder_and_stranger(scene: Scene) -> Target:
    """Pick the game's address, and a node without address that is not the game's."""
    row = scene.active("game")[0]
    other = next(node.name for node in scene.nodes if node.role != "game" and not node.addresses)
    return Target(node=row.node, address=row.address, other=other)


def unfit_node(scene: Scene) -> Target:
    """Pick the node that something was done to."""
    return Target(node=next(node.name for node in scene.nodes if not node.fit))


# -- what happens, where it is more than one thing -------------------------------------------------------------------


def fail_node_and_limit_rate(stage: Stage, target: Target) -> None:
    """Let the node fail while the provider is busy."""
    stage.limit_rate_once()
    stage.set_node_ready(target.node, ready=False)


def fail_pod_and_assignment(stage: Stage, target: Target) -> None:
    """Let the pod fail while the provider does."""
    stage.fail_once()
    stage.set_pod_ready(target.node, ready=False)


# -- when it is over -------------------------------------------------------------------------------------------------


def has_moved(scene: Scene, target: Target) -> bool:
    """Whether the target's address is active on another node, and everything else is as wanted."""
    here = any(row.address == target.address and row.node == target.node for row in scene.addresses)
    return not here and scene.settled


def is_back(scene: Scene, target: Target) -> bool:
    """Whether the target's address is not on the other node any more, for the provider too, and all is as wanted."""
    return target.address not in scene.node(target.other).addresses and scene.settled


def ingress_has(count: int) -> Settled:
    """Whether the ingress pool has that many addresses, all active."""

    def settled(scene: Scene, target: Target) -> bool:
        del target
        return len([row for row in scene.addresses if row.pool == "ingress"]) == count and scene.settled

    return settled


def game_is_active(scene: Scene, target: Target) -> bool:
    """Whether the game's address is active."""
    del target
    return bool(scene.active("game"))


def all_is_as_wanted(scene: Scene, target: Target) -> bool:
    """Whether every pool has what it wants, and DNS says so."""
    del target
    return scene.settled


# -- the steps -------------------------------------------------------------------------------------------------------

OPENING = (
    Step(
        f"Pool ingress is created: desiredIPs 2, dnsRecordSet {POOL_RECORD}",
        "For role=ingress and a ready pod. What is missing is created and published.",
        nothing,
        lambda stage, _: stage.create_ingress(),
        ingress_has(2),
    ),
    Step(
        f"NodeDNSRecordSet nodes is created: {NODES_RECORD}",
        "For the same nodes, but with their own ExternalIPs instead of floating ones.",
        nothing,
        lambda stage, _: stage.create_record_set(),
        all_is_as_wanted,
    ),
    Step(
        "Pool game is created: ips 192.0.2.200",
        "For nodes with role=game. The address exists and is on one: there it stays.",
        nothing,
        lambda stage, _: stage.create_game(),
        game_is_active,
    ),
)
"""What happens once, at the start."""

ROUND = (
    Step(
        "{node} fails: NotReady. It held {address}",
        f"It moves to the first free fit node: {POOL_RECORD} need not change.",
        holder_of("ingress"),
        lambda stage, target: stage.set_node_ready(target.node, ready=False),
        has_moved,
        spares=POOL_RECORD,
    ),
    Step(
        "{node} is Ready again",
        f"Nothing moves: all are on fit nodes already. Only {NODES_RECORD} changes.",
        unfit_node,
        lambda stage, target: stage.set_node_ready(target.node, ready=True),
    ),
    Step(
        "The pod on {node} is unready. The node held {address}",
        f"The node is up, but nobody would answer there. {POOL_RECORD} stays again.",
        holder_of("ingress", -1),
        lambda stage, target: stage.set_pod_ready(target.node, ready=False),
        has_moved,
        spares=POOL_RECORD,
    ),
    Step(
        "The pod on {node} is ready again",
        "Again nothing moves.",
        unfit_node,
        lambda stage, target: stage.set_pod_ready(target.node, ready=True),
    ),
    Step(
        "Somebody moves {address} from {node} to {other} by hand",
        "The provider is the truth: it is compared every {recheck}, by default 300 s.",
        holder_and_stranger,
        lambda stage, target: stage.move_by_hand(target.address, target.other),
        is_back,
        finds="other",
    ),
    Step(
        "{node} is cordoned and drained. It held {address}",
        "The pool does not tolerate the taint: the address leaves before the node does.",
        holder_of("game"),
        lambda stage, target: stage.cordon(target.node),
        has_moved,
    ),
    Step(
        "{node} is uncordoned",
        "Nothing moves: a move for no reason would only cut connections.",
        unfit_node,
        lambda stage, target: stage.uncordon(target.node),
    ),
    Step(
        "desiredIPs of pool ingress is raised from 2 to 3",
        "The intent to create is recorded first: a crash now would lose no address.",
        nothing,
        lambda stage, _: stage.set_desired_ips(3),
        ingress_has(3),
    ),
    Step(
        "desiredIPs of pool ingress is lowered from 3 to 2",
        "With reclaimPolicy Delete the surplus is given back; by default it is kept.",
        nothing,
        lambda stage, _: stage.set_desired_ips(2),
        ingress_has(2),
    ),
    Step(
        "{node} fails, and the provider answers 429. It held {address}",
        "The provider asks for a second of patience, and gets it.",
        holder_of("ingress"),
        fail_node_and_limit_rate,
        has_moved,
        spares=POOL_RECORD,
    ),
    Step(
        "{node} is Ready again",
        "Nothing moves.",
        unfit_node,
        lambda stage, target: stage.set_node_ready(target.node, ready=True),
    ),
    Step(
        "The pod on {node} is unready, and the provider answers 500",
        "Did the call work? {address} is read first, and then assigned again.",
        holder_of("ingress", -1),
        fail_pod_and_assignment,
        has_moved,
        finds="node",
        spares=POOL_RECORD,
    ),
    Step(
        "The pod on {node} is ready again",
        "Nothing moves.",
        unfit_node,
        lambda stage, target: stage.set_pod_ready(target.node, ready=True),
    ),
)
"""What happens again and again."""
