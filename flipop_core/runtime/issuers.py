"""The reconcile of a RoutedIPIssuer: whether it can be used, and by which RoutedIPs it is."""

from __future__ import annotations

from collections.abc import Callable

from flipop_core.cluster import ROUTED_IP_ISSUERS, KubeAPI
from flipop_core.errors import ConfigError, ResourceInvalid
from flipop_core.loggers import get_logger
from flipop_core.model import Key
from flipop_core.plan.report import merge_conditions, problem_reason
from flipop_core.registry import ProviderRegistry
from flipop_core.resources import reasons
from flipop_core.resources.parse import IssuerView, RoutedIPView, decode_issuer
from flipop_core.resources.routed import RoutedIPIssuerSpec, RoutedIPIssuerStatus
from flipop_core.resources.statuses import Condition
from flipop_core.resources.types import RECLAIM_FINALIZER
from flipop_core.runtime.clocks import Clocks
from flipop_core.runtime.credentials import RETRY_SECONDS, CredentialsUnavailable, SecretCredentials
from flipop_core.runtime.events import EventRecorder
from flipop_core.runtime.objects import ObjectWriter
from flipop_core.runtime.store import Store
from flipop_core.runtime.workqueue import WorkQueue
from flipop_core.runtime.writer import Writer

_log = get_logger(__name__)


def secret_name(spec: RoutedIPIssuerSpec) -> str:
    """Return the issuer's Secret as ``namespace/name``, empty for the environment."""
    secret = spec.credentials_secret_ref
    return f"{secret.namespace}/{secret.name}" if secret is not None else ""


def check_issuer(spec: RoutedIPIssuerSpec, registry: ProviderRegistry, *, firewall: bool) -> ConfigError | None:
    """Return what is wrong with the issuer as far as what is installed tells, None for nothing."""
    try:
        registry.ip_factory(spec.provider)
        if firewall:
            registry.firewall_factory(spec.provider)
    except ConfigError as error:
        return error
    return None


class IssuerController:
    """Reconciles RoutedIPIssuers. Its methods must be called with the shared lock held.

    An issuer that RoutedIPs name has a finalizer: without it their addresses could not be given back.
    """

    def __init__(
        self,
        *,
        api: KubeAPI,
        issuers: Store[IssuerView],
        routed_ips: Store[RoutedIPView],
        registry: ProviderRegistry,
        credentials: SecretCredentials,
        queue: WorkQueue,
        writer: Writer,
        recorder: EventRecorder,
        clocks: Clocks,
        recheck_seconds: float,
        wake_users: Callable[[str], None],
    ) -> None:
        self._issuers = issuers
        self._routed_ips = routed_ips
        self._registry = registry
        self._credentials = credentials
        self._queue = queue
        self._clocks = clocks
        self._recheck_seconds = recheck_seconds
        self._wake_users = wake_users
        self._objects = ObjectWriter(
            ROUTED_IP_ISSUERS, decode_issuer, api=api, store=issuers, queue=queue, writer=writer, recorder=recorder
        )

    def reconcile(self, key: Key) -> None:
        """Do what is to be done for one issuer now."""
        issuer = self._issuers.get("", key.name)
        if issuer is None:
            self._objects.forget(key)
            return
        users = self._users(key.name)
        self._keep_finalizer(issuer, wanted=bool(users))
        secret = secret_name(issuer.spec) if issuer.spec is not None else ""
        if secret and not self._credentials.known(secret, key):
            return
        problem = self._problem(issuer, secret)
        condition = _condition(issuer, users, problem)
        status = RoutedIPIssuerStatus(
            routed_ips=users,
            routed_ip_count=len(users),
            observed_generation=issuer.metadata.generation,
            conditions=merge_conditions(
                issuer.status.conditions, (condition,), issuer.metadata.generation, self._clocks.timestamp()
            ),
        )
        written = self._objects.write_status(issuer, status)
        if secret and problem is None:
            self._queue.add_after(key, self._recheck_seconds)  # to see that its Secret has changed
        if problem is not None:
            if written:
                _log.warning("issuer cannot be used", issuer=key.name, problem=str(problem))
                self._objects.event(issuer, condition.reason, condition.message, warning=True)
            if not isinstance(problem, ResourceInvalid):
                unread = isinstance(problem, CredentialsUnavailable)
                self._queue.add_after(key, RETRY_SECONDS if unread else self._recheck_seconds)
        if written:
            self._wake_users(key.name)

    def _keep_finalizer(self, issuer: IssuerView, *, wanted: bool) -> None:
        if wanted == (RECLAIM_FINALIZER in issuer.metadata.finalizers):
            return
        if wanted and issuer.metadata.deletion_timestamp is not None:
            return  # the API server takes none any more
        if not wanted and not self._routed_ips.synced:
            return  # where they cannot be listed, there may be some
        self._objects.write_finalizer(issuer, present=wanted)

    def _users(self, name: str) -> tuple[str, ...]:
        return tuple(
            sorted(
                f"{view.metadata.namespace}/{view.metadata.name}"
                for view in self._routed_ips.values()
                if view.spec is not None and view.spec.issuer_ref.name == name
            )
        )

    def _problem(self, issuer: IssuerView, secret: str) -> ConfigError | None:
        spec = issuer.spec
        if spec is None:
            return issuer.problem
        problem = check_issuer(spec, self._registry, firewall=bool(spec.routed_ip_firewall_name))
        if problem is not None or not secret:
            return problem
        try:
            values = self._credentials.values(secret)
        except CredentialsUnavailable as error:
            return error
        factory = self._registry.ip_factory(spec.provider)
        known = [each.variable for each in factory.credentials]
        missing = [each.variable for each in factory.credentials if each.required and each.variable not in values]
        if known and not missing and not any(variable in values for variable in known):
            missing = known
        if missing:
            mend = f"its keys are the provider's environment variables: add {', '.join(missing)}"
            return ResourceInvalid("spec.credentialsSecretRef", secret, mend, reason=reasons.CREDENTIALS_INCOMPLETE)
        return None


def _condition(issuer: IssuerView, users: tuple[str, ...], problem: ConfigError | None) -> Condition:
    if problem is not None:
        reason = (
            reasons.CREDENTIALS_UNAVAILABLE if isinstance(problem, CredentialsUnavailable) else problem_reason(problem)
        )
        return Condition(reasons.READY, "False", reason, str(problem), "")
    if issuer.metadata.deletion_timestamp is not None and users:
        message = f"{len(users)} RoutedIPs still use it, {users[0]} first: delete them, or let them name another issuer"
        return Condition(reasons.READY, "False", reasons.IN_USE, message, "")
    return Condition(reasons.READY, "True", reasons.USABLE, f"{len(users)} RoutedIPs use it", "")
