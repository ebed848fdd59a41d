"""What this process did in the last seconds: EC2's reads may lag behind its writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

SECONDS = 20.0
"""For how long after a write a read that does not show it proves nothing."""


class Placement(NamedTuple):
    """Where an address was put, or, all but ``ended`` empty, which associations of it were ended to take it off."""

    interface: str = ""
    private_address: str = ""
    association: str = ""
    ended: frozenset[str] = frozenset()


class Recent:
    """Allocations, placements and attempts of unknown outcome, each for `SECONDS`. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._allocated: dict[str, tuple[float, Mapping[str, Any]]] = {}
        self._placed: dict[str, tuple[float, Placement]] = {}
        self._doubted: dict[str, tuple[float, None]] = {}

    def allocated(self, answer: Mapping[str, Any], tags: list[dict[str, str]]) -> None:
        """Note an address that was allocated, by the answer to it."""
        record = {"PublicIp": answer["PublicIp"], "AllocationId": answer["AllocationId"], "Tags": tags}
        with self._lock:
            self._allocated[answer["PublicIp"]] = (self._clock(), record)

    def released(self, address: str) -> None:
        """Note that an address is gone."""
        with self._lock:
            self._allocated.pop(address, None)
            self._placed.pop(address, None)

    def placed(self, address: str, placement: Placement) -> None:
        """Note where an address was put, or that it was taken off."""
        with self._lock:
            self._placed[address] = (self._clock(), placement)

    def doubted(self, claim: str) -> None:
        """Note that an allocation with that claim was sent, and nothing is known of its outcome."""
        with self._lock:
            self._doubted[claim] = (self._clock(), None)

    def new(self) -> dict[str, Mapping[str, Any]]:
        """Return what was allocated, in the form of a read, by address."""
        with self._lock:
            return {address: record for address, (_, record) in self._alive(self._allocated).items()}

    def placement(self, address: str) -> Placement | None:
        """Return where the address was put last, None when it was not moved lately."""
        with self._lock:
            found = self._alive(self._placed).get(address)
        return None if found is None else found[1]

    def occupant(self, interface: str, private_address: str) -> str:
        """Return the address that was put on that private address last, empty when none was."""
        with self._lock:
            placed = self._alive(self._placed)
        for address, (_, placement) in placed.items():
            if (placement.interface, placement.private_address) == (interface, private_address):
                return address
        return ""

    def is_doubted(self, claim: str) -> bool:
        """Return whether an address with that claim may exist though no read shows it."""
        with self._lock:
            return claim in self._alive(self._doubted)

    def _alive(self, kept: dict[str, Any]) -> dict[str, Any]:
        """Forget what is too old, and return the rest."""
        oldest = self._clock() - SECONDS
        for name in [name for name, (moment, _) in kept.items() if moment < oldest]:
            del kept[name]
        return dict(kept)
