"""Which providers there are: plugins from entry points or registered by hand, and the providers built from them.

Each plugin is loaded, checked and called by itself, in a plugin manager of its own, so that one that fails is recorded
under its name and harms no other. What is right with a plugin is used even when something else of it is not.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast
from weakref import WeakValueDictionary

import msgspec
import pluggy

from flipop_core import hookspecs
from flipop_core.config import (
    KeptSecrets,
    Secrets,
    credentials_for,
    endpoint_for,
    missing_credentials,
    redact,
    user_agent_for,
)
from flipop_core.errors import ConfigError, PluginLoadError, UnknownProvider
from flipop_core.hookspecs import ENTRY_POINT_GROUP, PROJECT
from flipop_core.providers import (
    CredentialSpec,
    DNSProvider,
    FirewallProvider,
    IPProvider,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
)
from flipop_core.versions import plugin_api_problem

Role = Literal["ip", "dns", "firewall"]

ROLES: tuple[Role, ...] = ("ip", "dns", "firewall")

_ROLE_OF_HOOK: Mapping[str, Role] = {f"flipop_{role}_providers": role for role in ROLES}
_PROTOCOLS: Mapping[Role, type] = {"ip": IPProvider, "dns": DNSProvider, "firewall": FirewallProvider}
SLOW_SECONDS = 1.0
"""A plugin that takes longer to load is told of. One that imports no SDK takes some milliseconds."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class PluginInfo(msgspec.Struct, frozen=True):
    """One plugin: its entry point's name, where it comes from, what it offers, and what is wrong with it, if anything.

    ``roles`` has an entry for each of ``ip``, ``dns`` and ``firewall`` that the plugin offers. ``load_seconds`` is how
    long importing it and calling its hooks took.
    """

    name: str
    distribution: str = ""
    version: str = ""
    roles: Mapping[Role, tuple[ProviderFactory, ...]] = msgspec.field(default_factory=dict)
    error: PluginLoadError | None = None
    load_seconds: float = 0.0

    @property
    def slowness(self) -> str:
        """What is to be said of a plugin that all commands wait for, empty for one that loads in no time."""
        if self.load_seconds < SLOW_SECONDS:
            return ""
        return f"took {self.load_seconds:.1f} s to load, which every command waits for: import SDKs in build only"

    @property
    def factories(self) -> tuple[ProviderFactory, ...]:
        """All factories, of whatever role."""
        return tuple(factory for factories in self.roles.values() for factory in factories)


_Variant = tuple[str, tuple[tuple[str, str], ...] | None]
"""A region, and the credentials that replace those of the environment, sorted."""


class _Offer:
    """A factory in one role, and the providers that are built of it."""

    def __init__(self, plugin: str, role: Role, factory: ProviderFactory) -> None:
        self.plugin = plugin
        self.role = role
        self.factory = factory
        self.lock = threading.Lock()
        self._lasting: dict[_Variant, object] = {}
        # Of credentials that were replaced nothing is left, connections included, once the last call has ended.
        self._used: WeakValueDictionary[_Variant, Any] = WeakValueDictionary()

    def built(self, variant: _Variant) -> object | None:
        """Return the provider that was built, None if there is none or nobody uses it any more."""
        found: object | None = self._used.get(variant, self._lasting.get(variant))
        return found

    def keep(self, variant: _Variant, provider: object) -> None:
        """Note what was built: of credentials that were given, as long as it is used."""
        _, credentials = variant
        if credentials is not None:
            try:
                self._used[variant] = provider
            except TypeError:  # a class with slots
                pass
            else:
                return
        self._lasting[variant] = provider


class _Found(NamedTuple):
    roles: dict[Role, list[ProviderFactory]]
    problems: list[str]


class ProviderRegistry:
    """The installed providers by role and name. Thread-safe. Starts empty: `discover` or `register`.

    ``environ`` is where credentials are read from each time a provider is built (default: the process's environment);
    ``timeout_seconds`` bounds one call of a built provider.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, *, timeout_seconds: float = 7.0) -> None:
        self.secrets = KeptSecrets()
        """The credentials of all providers that were built, those of Secrets in the cluster included."""
        self._environ = os.environ if environ is None else environ
        self._timeout_seconds = timeout_seconds
        self._lock = threading.RLock()
        self._plugins: dict[str, PluginInfo] = {}
        self._twins: list[PluginInfo] = []
        self._offers: dict[tuple[Role, str], _Offer] = {}
        self._discovered = False
        self._warned: set[tuple[str, str]] = set()

    # -- plugins -----------------------------------------------------------------------------------------------------

    def discover(self) -> None:
        """Load the installed plugins, in the order of their names; only the first call does anything.

        Raises nothing: what fails is in `plugins`.
        """
        with self._lock:
            if self._discovered:
                return
            self._discovered = True
            points = importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
            for point in sorted(points, key=lambda point: (point.name, point.value)):
                self._load(point)

    def register(self, plugin: object, *, name: str) -> PluginInfo:
        """Add a plugin object, for a demo, a test or an embedder. Raises PluginLoadError, and then adds none of it."""
        with self._lock:
            roles, problems = self._without_taken(_ask(name, plugin))
            if name in self._plugins:
                problems.insert(0, "a plugin of that name is registered already")
            if problems:
                raise PluginLoadError(name, "; ".join(problems))
            return self._add(PluginInfo(name, roles=_frozen(roles)))

    @property
    def plugins(self) -> tuple[PluginInfo, ...]:
        """All plugins by name, also those that failed."""
        with self._lock:
            return tuple(sorted([*self._plugins.values(), *self._twins], key=lambda info: info.name))

    def _load(self, point: importlib.metadata.EntryPoint) -> None:
        # Damaged metadata has neither, whatever the annotations say.
        distribution = (point.dist.name if point.dist is not None else "") or ""
        version = (point.dist.version if point.dist is not None else "") or ""
        if point.name in self._plugins:
            first = self._plugins[point.name].distribution or "another distribution"
            error = PluginLoadError(point.name, f"{first} has a plugin of that name too: uninstall one of them")
            self._twins.append(PluginInfo(point.name, distribution, version, error=error))
            return
        started = time.monotonic()
        try:
            plugin = point.load()
        except (Exception, SystemExit) as failure:
            mend = f"reinstall or uninstall {distribution or 'its distribution'}"
            found = _Found({}, [f"cannot be imported: {_shown(failure)}: {mend}"])
        else:
            found = self._without_taken(_ask(point.name, plugin, distribution))
        problem = PluginLoadError(point.name, "; ".join(found.problems)) if found.problems else None
        seconds = time.monotonic() - started
        self._add(PluginInfo(point.name, distribution, version, _frozen(found.roles), problem, seconds))

    def _without_taken(self, found: _Found) -> _Found:
        """Drop the factories whose name another plugin, or the same one, has given already."""
        kept: dict[Role, list[ProviderFactory]] = {}
        problems = list(found.problems)
        for role, factories in found.roles.items():
            for factory in factories:
                taken = self._offers.get((role, factory.name))
                if taken is not None:
                    problems.append(f"{role} provider {factory.name!r} is already offered by plugin {taken.plugin!r}")
                elif any(factory.name == other.name for other in kept.get(role, ())):
                    problems.append(f"{role} provider {factory.name!r} is offered twice")
                else:
                    kept.setdefault(role, []).append(factory)
        return _Found(kept, problems)

    def _add(self, info: PluginInfo) -> PluginInfo:
        self._plugins[info.name] = info
        for role, factories in info.roles.items():
            for factory in factories:
                self._offers[role, factory.name] = _Offer(info.name, role, factory)
        return info

    # -- factories ---------------------------------------------------------------------------------------------------

    def ip_factory(self, name: str) -> ProviderFactory:
        """Return the factory of an IP provider. Raises UnknownProvider."""
        return self._offer("ip", name).factory

    def dns_factory(self, name: str) -> ProviderFactory:
        """Return the factory of a DNS provider. Raises UnknownProvider."""
        return self._offer("dns", name).factory

    def firewall_factory(self, name: str) -> ProviderFactory:
        """Return the factory of a firewall provider. Raises UnknownProvider."""
        return self._offer("firewall", name).factory

    def _offer(self, role: Role, name: str) -> _Offer:
        with self._lock:
            offer = self._offers.get((role, name))
            if offer is None:
                known = tuple(sorted(other for kind, other in self._offers if kind == role))
                raise UnknownProvider(name, role, known)
            return offer

    def configured(self) -> tuple[tuple[Role, ProviderFactory], ...]:
        """Return the factories, by role, of which the environment has a credential and misses none that is required."""
        with self._lock:
            offers = list(self._offers.values())
        return tuple(
            (offer.role, offer.factory)
            for offer in offers
            if credentials_for(offer.factory, self._environ) and not missing_credentials(offer.factory, self._environ)
        )

    # -- providers ---------------------------------------------------------------------------------------------------

    def ip_provider(self, name: str, *, region: str = "", credentials: Mapping[str, str] | None = None) -> IPProvider:
        """Return the IP provider, built by the first call that succeeds and then always the same object.

        There is one for each region, if the factory has ``region_of``, and for each ``credentials``: the variables of
        `CredentialSpec` and their values, which are used instead of the environment's. Of such it is the same object as
        long as somebody uses it, and is let go then.

        Raises UnknownProvider; ConfigError when a credential or another setting is missing or wrong; PluginLoadError
        when the plugin is at fault. After an error the next call tries again: a credential may have come.
        """
        return cast("IPProvider", self._provider("ip", name, region, credentials))

    def dns_provider(self, name: str, *, region: str = "", credentials: Mapping[str, str] | None = None) -> DNSProvider:
        """Return the DNS provider. As ip_provider."""
        return cast("DNSProvider", self._provider("dns", name, region, credentials))

    def firewall_provider(
        self, name: str, *, region: str = "", credentials: Mapping[str, str] | None = None
    ) -> FirewallProvider:
        """Return the firewall provider. As ip_provider."""
        return cast("FirewallProvider", self._provider("firewall", name, region, credentials))

    def _provider(self, role: Role, name: str, region: str, credentials: Mapping[str, str] | None) -> object:
        offer = self._offer(role, name)
        region = region if offer.factory.region_of is not None else ""
        variant = (region, None if credentials is None else tuple(sorted(credentials.items())))
        with offer.lock:  # its own, so that a slow build keeps no other provider waiting
            provider = offer.built(variant)
            if provider is None:
                provider = self._build(offer, region, credentials)
                offer.keep(variant, provider)
            return provider

    def _build(self, offer: _Offer, region: str, given: Mapping[str, str] | None) -> object:
        factory = offer.factory
        source = self._environ if given is None else given
        missing = missing_credentials(factory, source)
        if missing:
            wanted = ", ".join(f"{spec.variable} ({spec.summary})" for spec in missing)
            variables = " and ".join(spec.variable for spec in missing)
            where = "" if given is None else " in its Secret"
            raise ConfigError(f"provider {factory.name!r} lacks {wanted}: set {variables}{where}")
        credentials = credentials_for(factory, source)
        if given is not None and factory.credentials and not credentials:
            # What has credentials of its own elsewhere must not fall back to them: they may be another account's.
            known = ", ".join(spec.variable for spec in factory.credentials)
            raise ConfigError(f"provider {factory.name!r} finds none of its credentials in its Secret: set {known}")
        context = ProviderContext(
            credentials,
            region=region,
            endpoint=endpoint_for(factory, self._environ, self._warned),
            user_agent=user_agent_for(factory, self._environ),
            timeout_seconds=self._timeout_seconds,
        )
        self.secrets.keep(context.credentials.values())
        secrets = Secrets(context.credentials.values())
        try:
            provider = factory.build(context)
            breaches = _breaches(provider, offer.role)
        except ConfigError as error:
            if redact(str(error), secrets) == str(error):
                raise
            raise ConfigError(redact(str(error), secrets)) from None
        except (Exception, SystemExit) as error:
            shown = redact(_shown(error), secrets)
            message = f"{offer.role} provider {factory.name!r} cannot be built: {shown}"
            raise PluginLoadError(offer.plugin, message) from (error if shown == _shown(error) else None)
        if breaches:
            protocol = _PROTOCOLS[offer.role].__name__
            message = f"what it built as {offer.role} provider {factory.name!r} is no {protocol}: {'; '.join(breaches)}"
            raise PluginLoadError(offer.plugin, message)
        return provider


def _frozen(roles: Mapping[Role, list[ProviderFactory]]) -> Mapping[Role, tuple[ProviderFactory, ...]]:
    return MappingProxyType({role: tuple(roles[role]) for role in ROLES if roles.get(role)})


def _shown(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _breaches(provider: object, role: Role) -> list[str]:
    """Say in what ``provider`` differs from the role's protocol; an attribute may raise whatever it likes."""
    if isinstance(provider, type):
        return [f"it is the class {provider.__name__}, not an object"]
    members = [name for name in vars(_PROTOCOLS[role]) if not name.startswith("_") and name != "capabilities"]
    lacking = [name for name in members if not callable(getattr(provider, name, None))]
    breaches = [f"{type(provider).__name__} has no {', '.join(lacking)}"] if lacking else []
    if hasattr(_PROTOCOLS[role], "capabilities"):
        capabilities = getattr(provider, "capabilities", None)
        if not isinstance(capabilities, ProviderCapabilities):
            breaches.append(f"its capabilities are {type(capabilities).__name__}, not ProviderCapabilities")
    return breaches


# -- asking one plugin -----------------------------------------------------------------------------------------------


def _ask(name: str, plugin: object, distribution: str = "") -> _Found:
    """Call the plugin's hooks and sort what they return into good factories and problems.

    The hooks of a plugin for another plugin API are not called: what they return may mean something else there.
    """
    found = _Found({}, [])
    if mismatch := plugin_api_problem(plugin, distribution):
        found.problems.append(mismatch)
        return found
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin, name)
        callers = manager.get_hookcallers(plugin) or []
    except Exception as error:
        found.problems.append(f"its hooks cannot be used: {_shown(error)}")
        return found
    if not callers:
        hooks = ", ".join(_ROLE_OF_HOOK)
        found.problems.append(f"implements no hook: mark a function named {hooks} with @flipop_core.hookimpl")
    for caller in sorted(callers, key=lambda caller: caller.name):
        role = _ROLE_OF_HOOK.get(caller.name)
        if role is not None:
            _ask_hook(caller, role, found)
        elif not all(implementation.optionalhook for implementation in caller.get_hookimpls()):
            found.problems.append(f"there is no hook {caller.name!r}: known are {', '.join(_ROLE_OF_HOOK)}")
    return found


def _ask_hook(caller: pluggy.HookCaller, role: Role, found: _Found) -> None:
    try:
        answers = caller()
    except (Exception, SystemExit) as error:
        found.problems.append(f"{caller.name} failed: {_shown(error)}")
        return
    for answer in answers or [None]:  # pluggy leaves out an answer that is None
        if not isinstance(answer, Sequence) or isinstance(answer, str | bytes):
            kind = type(answer).__name__
            found.problems.append(f"{caller.name} returned {kind}, not a sequence of ProviderFactory")
            continue
        for factory in answer:
            problems = list(_factory_problems(factory))
            if problems:
                found.problems.append(f"{caller.name}: {'; '.join(problems)}")
            else:
                found.roles.setdefault(role, []).append(factory)


def _factory_problems(factory: object) -> Iterator[str]:
    """Say what is wrong with a factory: its types are not checked when it is made."""
    if not isinstance(factory, ProviderFactory):
        yield f"{type(factory).__name__} is no ProviderFactory"
        return
    label = f"provider {factory.name!r}"
    if not _is_text(factory.name, _NAME):
        yield f"{label}: its name must be lower-case letters, digits, '-', '_' and '.'"
    if not _is_text(factory.summary):
        yield f"{label}: its summary must be a text"
    if not callable(factory.build):
        yield f"{label}: its build must be callable, not {type(factory.build).__name__}"
    if not isinstance(factory.capabilities, ProviderCapabilities):
        yield f"{label}: its capabilities must be ProviderCapabilities, not {type(factory.capabilities).__name__}"
    else:
        yield from (f"{label}: {problem}" for problem in _capability_problems(factory.capabilities))
    if factory.region_of is not None and not callable(factory.region_of):
        yield f"{label}: its region_of must be callable, not {type(factory.region_of).__name__}"
    for field in ("endpoint_variable", "user_agent_variable"):
        variable = getattr(factory, field)
        if variable != "" and not _is_text(variable, _VARIABLE):
            yield f"{label}: its {field} must be the name of an environment variable, not {variable!r}"
    yield from (f"{label}: {problem}" for problem in _credential_problems(factory.credentials))


def _is_text(value: object, pattern: re.Pattern[str] | None = None) -> bool:
    return isinstance(value, str) and (pattern is None or pattern.fullmatch(value) is not None)


def _capability_problems(capabilities: ProviderCapabilities) -> Iterator[str]:
    try:
        msgspec.convert(msgspec.structs.asdict(capabilities), ProviderCapabilities)
    except msgspec.ValidationError as error:
        yield f"its capabilities are wrong: {error}"
        return
    for field in ("max_ips_per_node", "max_concurrency", "min_ttl_seconds"):
        if getattr(capabilities, field) < 1:
            yield f"its {field} must be 1 or more"


def _credential_problems(credentials: object) -> Iterator[str]:
    if not isinstance(credentials, Sequence) or isinstance(credentials, str | bytes):
        yield f"its credentials must be a tuple of CredentialSpec, not {type(credentials).__name__}"
        return
    for spec in credentials:
        if not isinstance(spec, CredentialSpec):
            yield f"its credentials must be CredentialSpec, not {type(spec).__name__}"
        elif not (_is_text(spec.variable, _VARIABLE) and _is_text(spec.summary) and isinstance(spec.required, bool)):
            yield f"its credential {spec.variable!r} needs an environment variable's name, a summary and required"
