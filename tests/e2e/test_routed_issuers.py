"""What an issuer gives its RoutedIPs: a provider, credentials from a Secret, and leave to name services elsewhere."""

from __future__ import annotations

import pytest

from .controller import TOKEN
from .routed import HTTPS, Routed
from .world import API_VERSION, FINALIZER, ISSUER, ROUTED_IP, World
from .zones import until_ready

ARGUMENTS = ("--recheck-seconds", "2")
REFUSED = "credentials refused"
VARIABLE = "DIGITALOCEAN_ACCESS_TOKEN"
FIRST, SECOND = "dop_v1_e2e_first", "dop_v1_e2e_second"


@pytest.fixture
def world(running: World) -> World:
    return running


@pytest.fixture
def routed(world: World) -> Routed:
    """Two nodes, and a service with an endpoint on the first."""
    routed = Routed(world, "a", "b")
    routed.service(routed.machines[0])
    return routed


def issuer_condition(world: World, name: str = "") -> dict[str, str]:
    return dict(world.condition("Ready", name or world.id, ISSUER))


def until_issuer(world: World, reason: str, name: str = "", timeout_seconds: float = 30.0) -> str:
    """Wait until an issuer's Ready has that reason, and return the message."""
    world.until(lambda: issuer_condition(world, name).get("reason") == reason, f"issuer {reason}", timeout_seconds)
    return issuer_condition(world, name)["message"]


def finalizers(world: World, name: str = "") -> list[str]:
    found: list[str] = world.resource(name or world.id, ISSUER)["metadata"].get("finalizers", [])
    return found


# -- the issuer itself -----------------------------------------------------------------------------------------------


def test_an_issuer_that_is_missing_is_told_and_waited_for(world: World, routed: Routed) -> None:
    later = f"{world.id}-later"
    routed.routed_ip(issuerRef={"name": later})
    assert later in routed.until_reason("IssuerNotFound")
    assert world.held() == {}
    routed.issue(later, routedIPFirewallName=routed.firewall)
    routed.until_on(routed.machines[0])
    routed.check_admission()


@pytest.mark.parametrize("provider", ["hetzner", "cloudflare"])
def test_an_issuer_of_a_provider_that_is_not_there_is_told(world: World, routed: Routed, provider: str) -> None:
    name = f"{world.id}-{provider}"
    routed.issue(name, provider=provider)
    routed.routed_ip(issuerRef={"name": name})
    assert provider in until_issuer(world, "UnknownProvider", name)
    assert provider in routed.until_reason("UnknownProvider")
    world.change(name, ISSUER, provider="digitalocean")
    routed.until_on(routed.machines[0])
    until_issuer(world, "Usable", name)


def test_an_issuer_tells_who_uses_it(world: World, routed: Routed) -> None:
    until_issuer(world, "Usable")
    assert finalizers(world) == []
    routed.routed_ip()
    routed.until_on(routed.machines[0])
    status = world.resource(world.id, ISSUER)["status"]
    assert status["routedIPs"] == [f"{world.namespace}/web"]
    assert status["routedIPCount"] == 1
    assert finalizers(world) == [FINALIZER]
    routed.delete()
    routed.until_gone()
    world.until(lambda: world.resource(world.id, ISSUER)["status"].get("routedIPCount", 0) == 0, "no user")
    world.until(lambda: finalizers(world) == [], "the finalizer to be removed")


def test_an_issuer_that_is_deleted_stays_until_nothing_uses_it(world: World, routed: Routed) -> None:
    routed.change_issuer(routedIPReclaimPolicy="Delete")
    routed.routed_ip()
    address = routed.until_on(routed.machines[0])
    routed.until_closed()
    world.cluster.delete(ISSUER, world.id, api_version=API_VERSION)
    assert f"{world.namespace}/web" in until_issuer(world, "InUse")
    # What uses it works on, a move included.
    routed.endpoints(routed.machines[1])
    assert routed.until_on(routed.machines[1]) == address
    routed.until_closed()
    routed.delete()
    routed.until_gone()
    world.until(lambda: world.is_gone(world.id, ISSUER), "the issuer to be gone")
    assert world.held() == {}
    routed.check_untouched()


def test_an_issuer_that_nothing_uses_goes_at_once(world: World) -> None:
    routed = Routed(world)
    until_issuer(world, "Usable")
    world.cluster.delete(ISSUER, routed.issuer, api_version=API_VERSION)
    assert world.is_gone(routed.issuer, ISSUER)


def test_another_issuer_lets_the_first_one_go(world: World, routed: Routed) -> None:
    other = f"{world.id}-other"
    routed.issue(other, routedIPFirewallName=routed.firewall)
    routed.routed_ip()
    address = routed.until_on(routed.machines[0])
    routed.change(issuerRef={"name": other})
    world.until(lambda: world.resource(other, ISSUER).get("status", {}).get("routedIPCount") == 1, "the new issuer")
    world.until(lambda: finalizers(world) == [], "the finalizer to be removed")
    until_ready(world, "web", ROUTED_IP)
    assert routed.status()["address"] == address
    assert routed.rules() == {HTTPS}


def test_a_service_of_another_namespace_needs_the_issuers_leave(world: World) -> None:
    routed = Routed(world, "a")
    (node,) = routed.machines
    elsewhere = world.cluster.create_namespace()
    routed.service(node, namespace=elsewhere)
    routed.routed_ip(serviceRef={"name": "web", "namespace": elsewhere})
    message = routed.until_reason("ServiceNotPermitted")
    assert elsewhere in message
    assert "serviceNamespaces" in message
    assert world.held() == {}
    routed.change_issuer(serviceNamespaces=[elsewhere])
    address = routed.until_on(node)
    routed.until_closed()
    # Taken back, nothing moves any more, and nothing is taken away.
    routed.change_issuer(serviceNamespaces=[])
    routed.until_reason("ServiceNotPermitted")
    routed.endpoints(routed.node("b"), namespace=elsewhere)
    world.stays(world.held, {address: node.droplet_id}, 1.5)
    assert routed.rules() == {HTTPS}


# -- credentials -----------------------------------------------------------------------------------------------------


def secretly(world: World, routed: Routed, **values: str) -> str:
    """Create a Secret with these values and an issuer that names it; return the name of both."""
    name = f"{world.id}-secret"
    reference = routed.secret(name, values)
    routed.issue(name, routedIPFirewallName=routed.firewall, credentialsSecretRef=reference)
    return name


def check_no_secret_shows(world: World) -> None:
    for value in (FIRST, SECOND):
        assert value not in world.controllers[0].log()
        assert value not in str(world.resource("web", ROUTED_IP))
        assert value not in str(world.events())


def test_credentials_are_read_from_the_secret(world: World, routed: Routed) -> None:
    world.cloud.settings.token = FIRST
    name = secretly(world, routed, **{VARIABLE: FIRST})
    routed.routed_ip(issuerRef={"name": name})
    routed.until_on(routed.machines[0])
    routed.check_admission()
    until_issuer(world, "Usable", name)
    check_no_secret_shows(world)


def test_new_credentials_are_used_without_a_restart(world: World, routed: Routed) -> None:
    world.cloud.settings.token = FIRST
    name = secretly(world, routed, **{VARIABLE: FIRST})
    routed.routed_ip(issuerRef={"name": name})
    address = routed.until_on(routed.machines[0])
    routed.until_closed()
    world.expected_errors.add(REFUSED)
    world.cloud.settings.token = SECOND
    routed.secret(name, {VARIABLE: SECOND})
    routed.endpoints(routed.machines[1])
    assert routed.until_on(routed.machines[1], timeout_seconds=30.0) == address
    routed.until_closed()
    assert routed.admitted() == {"b"}
    check_no_secret_shows(world)


def test_a_wrong_token_is_told_and_harms_nobody_else(world: World, routed: Routed) -> None:
    world.expected_errors.add(REFUSED)
    world.cloud.settings.token = TOKEN
    name = secretly(world, routed, **{VARIABLE: FIRST})
    routed.routed_ip(issuerRef={"name": name})
    message = routed.until_reason("AccessDenied")
    assert "401" in message
    check_no_secret_shows(world)
    # One with the environment's credentials works meanwhile.
    routed.service(routed.machines[1], name="other")
    routed.routed_ip("other")
    routed.until_on(routed.machines[1], "other")
    routed.secret(name, {VARIABLE: TOKEN})
    routed.until_on(routed.machines[0], timeout_seconds=30.0)


def test_a_secret_without_the_key_is_told(world: World, routed: Routed) -> None:
    name = secretly(world, routed, token=FIRST)
    routed.routed_ip(issuerRef={"name": name})
    assert VARIABLE in until_issuer(world, "CredentialsIncomplete", name)
    world.until(lambda: routed.condition().get("status") == "False", "the RoutedIP to be told")
    assert VARIABLE in routed.condition()["message"]
    assert world.held() == {}
    routed.secret(name, {VARIABLE: FIRST})
    routed.until_on(routed.machines[0], timeout_seconds=30.0)
    until_issuer(world, "Usable", name)


def test_a_secret_that_is_missing_is_told_and_waited_for(world: World, routed: Routed) -> None:
    name = f"{world.id}-secret"
    reference = {"namespace": "flipop", "name": name}
    routed.issue(name, routedIPFirewallName=routed.firewall, credentialsSecretRef=reference)
    routed.routed_ip(issuerRef={"name": name})
    assert f"flipop/{name}" in until_issuer(world, "CredentialsUnavailable", name)
    world.until(lambda: f"flipop/{name}" in routed.condition().get("message", ""), "the RoutedIP to be told")
    assert world.held() == {}
    routed.secret(name, {VARIABLE: FIRST})
    routed.until_on(routed.machines[0], timeout_seconds=40.0)
    until_issuer(world, "Usable", name, 20.0)


def test_a_secret_that_may_not_be_read_says_what_is_missing(world: World, routed: Routed) -> None:
    reference = routed.secret(f"{world.id}-secret", {VARIABLE: FIRST}, world.namespace)
    name = f"{world.id}-elsewhere"
    routed.issue(name, credentialsSecretRef=reference)
    routed.routed_ip(issuerRef={"name": name})
    message = until_issuer(world, "CredentialsUnavailable", name)
    assert f"namespace {world.namespace}" in message
    assert "verb get on secrets" in message


def test_a_secret_that_is_removed_leaves_what_works(world: World, routed: Routed) -> None:
    """The credentials that were read last are used until there are others; the issuer says what is wrong."""
    name = secretly(world, routed, **{VARIABLE: FIRST})
    routed.routed_ip(issuerRef={"name": name})
    address = routed.until_on(routed.machines[0])
    routed.until_closed()
    world.cluster.delete("Secret", name, "flipop")
    until_issuer(world, "CredentialsUnavailable", name)
    routed.endpoints(routed.machines[1])
    assert routed.until_on(routed.machines[1]) == address
