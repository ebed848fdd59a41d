exec(open('/tmp/acct/edit1.py').read().split("sub('accounts.py'")[0])
sub('accountbook.py',[
("from typing import Protocol, TypeVar\n","from typing import Protocol\n"),
("from flipop_core.runtime.accounts import Account, AccountListener, Demand\n","from flipop_core.runtime.accounts import AccountContext, P, Account\n"),
("from flipop_core.runtime.firewallaccounts import FirewallAccount\n","from flipop_core.runtime.firewallaccounts import FirewallAccount\nfrom flipop_core.runtime.ipaccounts import AccountListener, Demand, IPAccount\n"),
("from flipop_core.runtime.verification import Verifiable, Verification\n","from flipop_core.runtime.verification import Verification\n"),
('''_Provider = TypeVar("_Provider", bound=Verifiable)
_Provider_contra = TypeVar("_Provider_contra", contravariant=True)

''',''),
('''class _Caller(Protocol[_Provider_contra]):
    """An account whose calls can be made through another provider object."""

    def use(self, provider: _Provider_contra) -> None: ...

    def accepted(self) -> None: ...


''',''),
('''        self._lock = lock
        self._fence = fence
        self._queue = queue
        self._clocks = clocks
        self._metrics = metrics
''','''        self._context = AccountContext(
            lock, fence, metrics, clocks.monotonic, clocks.jitter, settings.provider_timeout_seconds
        )
        self._recheck_seconds = settings.recheck_seconds
        self._queue = queue
        self._clocks = clocks
'''),
('''        self._settings = settings
''',''),
("dict[Key, Account]","dict[Key, IPAccount]"),
("-> Account:","-> IPAccount:"),("-> Account | None:","-> IPAccount | None:"),
('''Account(
                ref,
                provider,
                lock=self._lock,
                fence=self._fence,
                listener=self.listener,
                demand=self.demand_of(ref),
                clock=self._clocks.monotonic,
                jitter=self._clocks.jitter,
                wake_at=lambda moment: self._queue.add_after(key, max(0.0, moment - self._clocks.monotonic())),
                metrics=self._metrics,
                timeout_seconds=self._settings.provider_timeout_seconds,
            )
            self._queue.add_after(key, self._settings.recheck_seconds)
            self._providers["ip", ref] = provider
            self._verification.use("ip", ref, provider, account.accepted)
''','''IPAccount(
                ref,
                provider,
                self._context,
                listener=self.listener,
                demand=self.demand_of(ref),
                wake_at=lambda moment: self._queue.add_after(key, max(0.0, moment - self._clocks.monotonic())),
            )
            self._queue.add_after(key, self._recheck_seconds)
            self._verify("ip", ref, provider, account)
'''),
('''                provider,
                lock=self._lock,
                fence=self._fence,
                wake=lambda key: self._queue.add(key, urgent=True),
                clock=self._clocks.monotonic,
                jitter=self._clocks.jitter,
                metrics=self._metrics,
                timeout_seconds=self._settings.provider_timeout_seconds,
                changed=self.record_changed,
            )
            self._providers["dns", AccountRef(name)] = provider
            self._verification.use("dns", AccountRef(name), provider, account.accepted)
''','''                provider,
                self._context,
                wake=lambda key: self._queue.add(key, urgent=True),
                changed=self.record_changed,
            )
            self._verify("dns", AccountRef(name), provider, account)
'''),
('''                provider,
                lock=self._lock,
                fence=self._fence,
                wake=self._wake,
                refused=self.listener.firewall_refused,
                clock=self._clocks.monotonic,
                jitter=self._clocks.jitter,
                metrics=self._metrics,
                timeout_seconds=self._settings.provider_timeout_seconds,
                changed=self.listener.firewall_changed,
            )
            self._providers["firewall", ref] = provider
            self._verification.use("firewall", ref, provider, account.accepted)
''','''                provider,
                self._context,
                wake=self._wake,
                refused=self.listener.firewall_refused,
                changed=self.listener.firewall_changed,
            )
            self._verify("firewall", ref, provider, account)
'''),
('''        account: Account | DNSAccount | FirewallAccount | None = None
        match role:
            case "ip":
                account = self.known_ip(ref)
            case "dns":
                account = self._dns.get(ref.provider)
            case "firewall":
                account = self.known_firewall(ref)
        gates = [Gate()] if account is None else [account.gate]
        if isinstance(account, Account):
            gates += (account.read_gate, *account.denied.values())
        return max(gates, key=lambda gate: gate.not_before)
''','''        accounts: dict[Role, _AnyAccount | None] = {
            "ip": self.known_ip(ref),
            "dns": self._dns.get(ref.provider),
            "firewall": self.known_firewall(ref),
        }
        account = accounts[role]
        return account.last_gate if account is not None else Gate()
'''),
('''        build: Callable[..., _Provider],
        account: _Caller[_Provider],
''','''        build: Callable[..., P],
        account: Account[P],
'''),
('''        account.use(provider)
        self._providers[role, ref] = provider
        self._verification.use(role, ref, provider, account.accepted)
''','''        account.use(provider)
        self._verify(role, ref, provider, account)

    def _verify(self, role: Role, ref: AccountRef, provider: P, account: Account[P]) -> None:
        """Have the credentials verified of a provider whose account makes its calls through it from now on."""
        self._providers[role, ref] = provider
        self._verification.use(role, ref, provider, account.accepted)
'''),
('''        moment = account.tick(key, now, self._settings.recheck_seconds * self''','''        moment = account.tick(key, now, self._recheck_seconds * self'''),
("list[Account | DNSAccount | FirewallAccount]","list[_AnyAccount]"),
('''_log = get_logger(__name__)

''','''_AnyAccount = IPAccount | DNSAccount | FirewallAccount

_log = get_logger(__name__)

'''),
])
sub('calls.py',[('on threads of their own: what IP and DNS accounts have in common."""','on threads of their own."""')])
import os
os.chdir('/tmp/acct/tests/runtime')
sub('dnsrig.py',[
('''            lock=threading.RLock(),
            fence=self.fence,
            wake=self.queue.add,
            clock=self.clock,
            jitter=lambda: 1.0,
            metrics=Metrics(CollectorRegistry()),
            timeout_seconds=5.0,
''','''            account_context(self.fence, self.clock),
            wake=self.queue.add,
'''),
('''@dataclass
class Resource:
''','''def account_context(fence: Fence, clock: FakeClock) -> AccountContext:
    """Return a context without jitter."""
    return AccountContext(threading.RLock(), fence, Metrics(CollectorRegistry()), clock, lambda: 1.0, TIMEOUT_SECONDS)


@dataclass
class Resource:
'''),
('ZONE = "example.com"\n','ZONE = "example.com"\nTIMEOUT_SECONDS = 5.0\n'),
("from flipop_core.runtime.fence import NoElection\n","from flipop_core.runtime.fence import Fence, NoElection\n"),
("from flipop_core.runtime.calls import Calls\n","from flipop_core.runtime.accounts import AccountContext\nfrom flipop_core.runtime.calls import Calls\n"),
])
sub('firewallaccounts/rig.py',[
('''            lock=threading.RLock(),
            fence=self.fence,
            wake=lambda key, seconds: self.woken.append((key, seconds)),
            refused=lambda key, action, error: self.refused.append((key, action, error)),
            clock=self.clock,
            jitter=lambda: 1.0,
            metrics=Metrics(CollectorRegistry()),
            timeout_seconds=TIMEOUT_SECONDS,
''','''            account_context(self.fence, self.clock),
            wake=lambda key, seconds: self.woken.append((key, seconds)),
            refused=lambda key, action, error: self.refused.append((key, action, error)),
'''),
("import threading\n",""),
("TIMEOUT_SECONDS = 5.0\n",""),
("from tests.runtime.dnsrig import StepCalls\n","from tests.runtime.dnsrig import StepCalls, account_context\n"),
])
sub('firewallaccounts/test_terms.py',[
('''        lock=threading.RLock(),
        fence=rig.fence,
        wake=lambda key, seconds: rig.woken.append((key, seconds)),
        refused=lambda *_: None,
        clock=rig.clock,
        jitter=lambda: 1.0,
        metrics=Metrics(CollectorRegistry()),
        timeout_seconds=TIMEOUT_SECONDS,
''','''        account_context(rig.fence, rig.clock),
        wake=lambda key, seconds: rig.woken.append((key, seconds)),
        refused=lambda *_: None,
'''),
])
