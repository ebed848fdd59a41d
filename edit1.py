import re,sys
def sub(path, pairs):
    s=open(path).read()
    for a,b in pairs:
        assert s.count(a)==1,(path,s.count(a),a)
        s=s.replace(a,b)
    open(path,'w').write(s)

sub('accounts.py',[
("from flipop_core.errors import AccessDenied, ProviderError, RateLimited\n","from flipop_core.errors import AccessDenied, FlipopError, ProviderError, RateLimited\n"),
('''    def _hold_back(self, error: ProviderError) -> bool:
''','''    def _hold_back(self, error: FlipopError, now: float) -> bool:
'''),
("next_gate(self.gate, error, self._clock(), self._jitter())","next_gate(self.gate, error, now, self._jitter())"),
])

sub('ipaccounts.py',[
('''"""One provider account, or one region of it: what is known of its addresses, and which calls to it are under way.

Everything here happens under one lock that all accounts and controllers share: decisions are quick, calls are not, and
calls are made outside it, on the account's own threads, so that a provider that hangs keeps no other waiting.
"""
''','''"""One IP provider account, or one region of it: its addresses, and the calls under way about them."""
'''),
("import math\nimport threading\n","import math\n"),
("from flipop_core.errors import AccessDenied, FlipopError, ProviderError, RateLimited\n","from flipop_core.errors import AccessDenied, FlipopError, ProviderError, RateLimited\n"),
('''from flipop_core.runtime.calls import Calls
from flipop_core.runtime.leader import Fence, NotLeader
from flipop_core.runtime.metrics import Metrics
''','''from flipop_core.runtime.accounts import Account, AccountContext
'''),
('''old."""


POLL_GRID''','''old."""

POLL_GRID'''),
('''class Account:
    """See the module. ``name`` is the provider's; ``ref`` says which of its accounts this is."""

    def __init__(
        self,
        ref: AccountRef,
        provider: IPProvider,
        *,
        lock: threading.RLock,
        fence: Fence,
        listener: AccountListener,
        demand: Demand,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        wake_at: Callable[[float], None],
        metrics: Metrics,
        timeout_seconds: float,
    ) -> None:
        self.ref = ref
        self.name = ref.provider
        self.capabilities = provider.capabilities
        self.inventory = Inventory()
        self.operations: dict[str, Operation] = {}
        self.gate = Gate()
        self.read_gate = Gate()
        self.denied: dict[Verb, Gate] = {}
        self._provider = provider
        self._lock = lock
        self._fence = fence
        self._listener = listener
        self._demand = demand
        self._clock = clock
        self._jitter = jitter
        self._wake_at = wake_at
        self._timeout_seconds = timeout_seconds
''','''class IPAccount(Account[IPProvider]):
    """See the module. ``ref`` says which of the provider's accounts this is.

    ``read_gate`` holds back reads of the whole account, each of ``denied`` the calls of one verb. ``wake_at`` has
    `tick` called at a moment (monotonic seconds).
    """

    def __init__(
        self,
        ref: AccountRef,
        provider: IPProvider,
        context: AccountContext,
        *,
        listener: AccountListener,
        demand: Demand,
        wake_at: Callable[[float], None],
    ) -> None:
        super().__init__(ref.provider, provider, context)
        self.ref = ref
        self.inventory = Inventory()
        self.operations: dict[str, Operation] = {}
        self.read_gate = Gate()
        self.denied: dict[Verb, Gate] = {}
        self._listener = listener
        self._demand = demand
        self._wake_at = wake_at
'''),
('''        self._max_width = max(2, self.capabilities.max_concurrency)
        self._width = self._max_width
''','''        self._width = self._max_workers
'''),
('''        self._begun: deque[Callable[[], None]] = deque()
        self._calls = Calls(self.name, max_workers=self._max_width, metrics=metrics, clock=clock)
''','''        self._begun: deque[Callable[[], None]] = deque()

    # -- what holds calls back ---------------------------------------------------------------------------------------

    @property
    def last_gate(self) -> Gate:
        """As `Account.last_gate`."""
        return max((self.gate, self.read_gate, *self.denied.values()), key=lambda gate: gate.not_before)

    def accepted(self) -> None:
        """As `Account.accepted`."""
        super().accepted()
        self.read_gate = gate_of_accepted(self.read_gate)
        self.denied.clear()

    def invalidate(self) -> None:
        """As `Account.invalidate`."""
        super().invalidate()
        self.inventory = Inventory()
        self._touched.clear()  # nothing is left that a read could be compared with

    def _open(self) -> None:
        super()._open()
        self.read_gate = Gate()
        self.denied.clear()

    def _is_open(self, action: ProviderAction, verb: Verb) -> bool:
        gates = [self.gate] if isinstance(action, FindCreated) else [self.gate, self.denied.get(verb, Gate())]
        return all(gate.not_before <= self._clock() for gate in gates)

    def _refused(self, action: ProviderAction, verb: Verb, error: FlipopError, now: float) -> None:
        """Hold back what the error concerns: all calls, or those of one verb alone where a change is not allowed.

        Credentials that may not create addresses may well move them. Those that are no good at all are refused to a
        read too, and that holds back everything.
        """
        if isinstance(error, AccessDenied) and not isinstance(action, FindCreated):
            self.denied[verb] = next_gate(self.denied.get(verb, Gate()), error, now, self._jitter())
        else:
            self._hold_back(error, now)
'''),
('''        outcome: Outcome | None = None
        with self._lock:
            is_open = self._is_open(action, verb)  # it may have been closed since this was begun
        try:
            if is_open and not isinstance(action, FindCreated):
                self._fence.require(self._timeout_seconds, term=term)
            if is_open:
                outcome = self._call(action, owner)
        except NotLeader:
            outcome = None
        with self._lock:
''','''        with self._lock:
            is_open = self._is_open(action, verb)  # it may have been closed since this was begun
        outcome = self._call(action, owner, term) if is_open else None
        with self._lock:
'''),
('''                self._close(action, verb, outcome, now)
''','''                self._refused(action, verb, outcome, now)
'''),
('''    def _is_open(self, action: ProviderAction, verb: Verb) -> bool:
        gates = [self.gate] if isinstance(action, FindCreated) else [self.gate, self.denied.get(verb, Gate())]
        return all(gate.not_before <= self._clock() for gate in gates)

    def _close(self, action: ProviderAction, verb: Verb, error: FlipopError, now: float) -> None:
        """Hold back what the error concerns: all calls, or those of one verb alone where a change is not allowed.

        Credentials that may not create addresses may well move them. Those that are no good at all are refused to a
        read too, and that holds back everything.
        """
        if isinstance(error, AccessDenied) and not isinstance(action, FindCreated):
            self.denied[verb] = next_gate(self.denied.get(verb, Gate()), error, now, self._jitter())
        elif isinstance(error, RateLimited | AccessDenied):
            self.gate = next_gate(self.gate, error, now, self._jitter())

''','') if False else ('''            self._width = min(self._max_width, self._width + 1)
''','''            self._width = min(self._max_workers, self._width + 1)
'''),
('''    def _call(self, action: ProviderAction, owner: Key) -> Outcome:
        match action:
            case AssignAddress():
                return self._calls.timed(
                    "AssignIP", owner, lambda: self._provider.assign(action.address, action.provider_id)
                )
            case UnassignAddress():
                return self._calls.timed("UnassignIP", owner, lambda: self._provider.unassign(action.address))
            case DeleteAddress():
                return self._calls.timed("DeleteIP", owner, lambda: self._provider.delete(action.address))
            case CreateAddress():
                return self._calls.timed("CreateIP", owner, lambda: self._provider.create(action.request))
''','''    def _call(self, action: ProviderAction, owner: Key, term: int) -> Outcome | None:
        match action:
            case AssignAddress():
                return self._fenced(
                    "AssignIP", owner, term, lambda: self._provider.assign(action.address, action.provider_id)
                )
            case UnassignAddress():
                return self._fenced("UnassignIP", owner, term, lambda: self._provider.unassign(action.address))
            case DeleteAddress():
                return self._fenced("DeleteIP", owner, term, lambda: self._provider.delete(action.address))
            case CreateAddress():
                return self._fenced("CreateIP", owner, term, lambda: self._provider.create(action.request))
'''),
('''    @property
    def reading(self) -> bool:
        """Whether the whole account is being read. The lock must be held."""
        return self._reading_all

    # -- reads -------------------------------------------------------------------------------------------------------

''','''    # -- reads -------------------------------------------------------------------------------------------------------

    @property
    def reading(self) -> bool:
        """Whether the whole account is being read. The lock must be held."""
        return self._reading_all

'''),
('''    def use(self, provider: IPProvider) -> None:
        """Make calls through ``provider`` from now on: the same account, other credentials. The lock must be held."""
        self._provider = provider
        self._open()

    def accepted(self) -> None:
        """Make calls again that wait since the credentials were refused. The lock must be held."""
        self.gate, self.read_gate = gate_of_accepted(self.gate), gate_of_accepted(self.read_gate)
        self.denied.clear()

    def invalidate(self) -> None:
        """Forget what is known, after a pause in which anything may have happened. The lock must be held."""
        self.inventory = Inventory()
        self._touched.clear()  # nothing is left that a read could be compared with
        self._open()

    def _open(self) -> None:
        self.gate = self.read_gate = Gate()
        self.denied.clear()

''',''),
('''        if isinstance(error, RateLimited | AccessDenied):
            self.gate = next_gate(self.gate, error, now, self._jitter())
        elif whole_account:
            gate = next''','''        if not self._hold_back(error, now) and whole_account:
            gate = next'''),
('''

    # -- end ---------------------------------------------------------------------------------------------------------

    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the calls under way. Return whether all have ended."""
        return self._calls.close(timeout_seconds)
''','\n'),
])
s=open('ipaccounts.py').read()
old='''    def _is_open(self, action: ProviderAction, verb: Verb) -> bool:
        gates = [self.gate] if isinstance(action, FindCreated) else [self.gate, self.denied.get(verb, Gate())]
        return all(gate.not_before <= self._clock() for gate in gates)

    def _close(self'''
i=s.index(old); j=s.index("    def _adapt"); s=s[:i]+s[j:]
open('ipaccounts.py','w').write(s.rstrip('\n')+'\n')

sub('dnsaccounts.py',[
("import threading\nfrom coll","from coll"),
("from flipop_core.plan.limits import Gate, gate_of_accepted, next_gate\n","from flipop_core.plan.limits import Gate\n") if False else ("from flipop_core.plan.limits import Gate, gate_of_accepted, next_gate\n",""),
('''from flipop_core.runtime.calls import Calls
from flipop_core.runtime.leader import Fence, NotLeader
from flipop_core.runtime.metrics import Metrics
''','''from flipop_core.runtime.accounts import Account, AccountContext
'''),
('''class DNSAccount:
''','''class DNSAccount(Account[DNSProvider]):
'''),
('''        provider: DNSProvider,
        *,
        lock: threading.RLock,
        fence: Fence,
        wake: Callable[[Key], None],
        clock: Callable[[], float],
        jitter: Callable[[], float],
        metrics: Metrics,
        timeout_seconds: float,
        changed: Callable[[Key, RecordAction], None] = lambda _owner, _action: None,
    ) -> None:
        self.name = name
        self._changed = changed
        self.capabilities = provider.capabilities
        self.gate = Gate()
        self._provider = provider
        self._lock = lock
        self._fence = fence
        self._wake = wake
        self._clock = clock
        self._jitter = jitter
        self._timeout_seconds = timeout_seconds
''','''        provider: DNSProvider,
        context: AccountContext,
        *,
        wake: Callable[[Key], None],
        changed: Callable[[Key, RecordAction], None] = lambda _owner, _action: None,
    ) -> None:
        super().__init__(name, provider, context)
        self._wake = wake
        self._changed = changed
'''),
('''        self._ensured: dict[RecordName, RecordAction] = {}
        workers = max(2, self.capabilities.max_concurrency)
        self._calls = Calls(name, max_workers=workers, metrics=metrics, clock=clock)
''','''        self._ensured: dict[RecordName, RecordAction] = {}
'''),
('''    def accepted(self) -> None:
        """Make calls again that wait since the credentials were refused. The lock must be held."""
        self.gate = gate_of_accepted(self.gate)

    def invalidate(self) -> None:
        """Forget what is known, after a pause in which anything may have happened."""
        self._epoch''','''    def invalidate(self) -> None:
        """As `Account.invalidate`."""
        super().invalidate()
        self._epoch'''),
('''        self._first_read_at.clear()
        self.gate = Gate()
''','''        self._first_read_at.clear()
'''),
('''    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the calls under way. Return whether all have ended."""
        return self._calls.close(timeout_seconds)

''',''),
('''        outcome: MutationResult | FlipopError | None
        try:
            self._fence.require(self._timeout_seconds, term=term)
            outcome = self._calls.timed("EnsureDNSARecordSet", owner, lambda: self._send(action))
        except NotLeader:
            outcome = None
        with''','''        outcome = self._fenced("EnsureDNSARecordSet", owner, term, lambda: self._send(action))
        with'''),
('''            self.gate = Gate()
''','''            self._open()
'''),
('''            self.gate = next_gate(self.gate, error, now, jitter)
''','''            self._hold_back(error, now)
'''),
('''        now, jitter = self._clock(), self._jitter()
''','''        now = self._clock()
'''),
("next_failure(self._backoffs.get(name), name, error, now, jitter)","next_failure(self._backoffs.get(name), name, error, now, self._jitter())"),
])
sub('firewallaccounts.py',[
("import threading\nfrom coll","from coll"),
("from flipop_core.plan.limits import Gate, gate_of_accepted, next_gate\n",""),
('''from flipop_core.runtime.calls import Calls
from flipop_core.runtime.leader import Fence, NotLeader
from flipop_core.runtime.metrics import Metrics
''','''from flipop_core.runtime.accounts import Account, AccountContext
'''),
('''class FirewallAccount:
''','''class FirewallAccount(Account[FirewallProvider]):
'''),
('''        provider: FirewallProvider,
        *,
        lock: threading.RLock,
        fence: Fence,
        wake: Callable[[Key, float], None],
        refused: Callable[[Key, FirewallAction, FlipopError], None],
        clock: Callable[[], float],
        jitter: Callable[[], float],
        metrics: Metrics,
        timeout_seconds: float,
        changed: Callable[[Key, FirewallAction], None] = lambda _owner, _action: None,
    ) -> None:
        self.name = name
        self._told = changed
        self.capabilities = provider.capabilities
        self.gate = Gate()
        self._provider = provider
        self._lock = lock
        self._fence = fence
        self._wake = wake
        self._refused = refused
        self._clock = clock
        self._jitter = jitter
        self._timeout_seconds = timeout_seconds
''','''        provider: FirewallProvider,
        context: AccountContext,
        *,
        wake: Callable[[Key, float], None],
        refused: Callable[[Key, FirewallAction, FlipopError], None],
        changed: Callable[[Key, FirewallAction], None] = lambda _owner, _action: None,
    ) -> None:
        super().__init__(name, provider, context)
        self._wake = wake
        self._refused = refused
        self._changed = changed
'''),
('''        self._epoch = 0
        workers = max(2, self.capabilities.max_concurrency)
        self._calls = Calls(name, max_workers=workers, metrics=metrics, clock=clock)
''','''        self._epoch = 0
'''),
('''        """Make calls through ``provider`` from now on: the same account with other credentials."""
        self._provider = provider
        self.gate = Gate()
        self._failures.clear()

    def accepted(self) -> None:
        """Make calls again that wait since the credentials were refused. The lock must be held."""
        self.gate = gate_of_accepted(self.gate)

    def invalidate(self) -> None:
        """Forget what is known, after a pause in which anything may have happened."""
        self._epoch''','''        """As `Account.use`."""
        super().use(provider)
        self._failures.clear()

    def invalidate(self) -> None:
        """As `Account.invalidate`."""
        super().invalidate()
        self._epoch'''),
('''        self._failures.clear()
        self.gate = Gate()

    def close(self, timeout_seconds: float) -> bool:
        """Start nothing more and wait for the calls under way. Return whether all have ended."""
        return self._calls.close(timeout_seconds)
''','''        self._failures.clear()
'''),
('''        self.gate = Gate()
        self._ids''','''        self._open()
        self._ids'''),
('''        outcome: MutationResult | FlipopError | None
        try:
            self._fence.require(self._timeout_seconds, term=term)
            outcome = self._calls.timed(_CALLS[type(action)], owner, lambda: _send(provider, before, action))
        except NotLeader:
            outcome = None
''','''        outcome = self._fenced(_CALLS[type(action)], owner, term, lambda: _send(provider, before, action))
'''),
('''                    self._changed(place, before, action, outcome, owner, epoch)
''','''                    self._done(place, before, action, outcome, owner, epoch)
'''),
("    def _changed(\n","    def _done(\n"),
('''        self._told(owner, action)
        self.gate = Gate()
''','''        self._changed(owner, action)
        self._open()
'''),
('''        if isinstance(error, RateLimited) or (isinstance(error, AccessDenied) and action is None):
            self.gate = next_gate(self.gate, error, now, self._jitter())
''','''        if action is None or isinstance(error, RateLimited):
            self._hold_back(error, now)
'''),
("self._change(place, before, action, owner, term, epoch, provider)","self._change(place, before, action, owner, term, epoch, provider)"),
])
for f in ['controllers.py','kinds.py','observing.py','planning.py','poolaccounts.py','reporting.py','routedips.py']:
    s=open(f).read()
    s=s.replace("from flipop_core.runtime.accounts import Account\n","from flipop_core.runtime.ipaccounts import IPAccount\n")
    s=re.sub(r"(?<![\w.`])Account(?=[\],\s)|])(?! (?:with|in))",lambda m:"IPAccount",s) if False else re.sub(r"account: Account\b","account: IPAccount",s)
    s=s.replace("-> Account | None","-> IPAccount | None").replace("-> Account:","-> IPAccount:").replace("[[AccountRef], Account]","[[AccountRef], IPAccount]")
    open(f,'w').write(s)
