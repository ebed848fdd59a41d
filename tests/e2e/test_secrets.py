"""No secret gets out of a run in which everything fails: providers echo what they were sent, hang, or talk rubbish."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from tests.support.httpserver import APIServer
from tests.support.journal import Entry

from .aws import SECRET, AWSWorld
from .controller import CLOUDFLARE_TOKEN, TOKEN, Controller, run_command
from .routed import Routed
from .world import ISSUER, POOL, RECORD_SET, ROUTED_IP

SESSION = "e2e+session/token==0123456789abcdef"
ISSUERS_TOKEN = "dop_v1_issuer_fedcba9876543210"
SECRETS = (TOKEN, CLOUDFLARE_TOKEN, SECRET, SESSION, ISSUERS_TOKEN)

FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "status", "status": 500},
    {"kind": "body", "status": 200},
    {"kind": "status", "status": 422},
    {"kind": "hang", "seconds": 1.0},
    {"kind": "cut_body"},
    {"kind": "retry_after", "seconds": 1.0},
    {"kind": "html_502"},
    {"kind": "status", "status": 403},
    {"kind": "status", "status": 401},
)
"""What happens to one request after the other; the last two end it, as a refusal is asked about a minute later."""

ARGUMENTS = ("--debug", "--recheck-seconds", "1")


def forms(secret: str) -> Iterator[str]:
    """Yield how a secret may be written."""
    yield secret
    yield quote(secret, safe="")
    yield base64.b64encode(secret.encode()).decode()
    yield base64.b64encode(secret.encode()).decode().rstrip("=")
    yield json.dumps(secret)[1:-1]


def echoing(server: APIServer[Any], monkeypatch: pytest.MonkeyPatch, *also: str) -> None:
    """Let what faults answer repeat the credentials of the very request, and ``also``, in body and headers."""
    request = threading.local()
    new_entry, find_fault = server.new_entry, server.find_fault

    def noted(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Entry:
        sent = [headers.get(name, "") for name in ("authorization", "x-amz-security-token")]
        request.echo = " ".join(f"{text} {quote(text, safe='')}" for text in (*sent, *also))
        return new_entry(method, path, query, headers, body)

    def told(entry: Entry) -> Any:
        fault = find_fault(entry)
        if fault is None:
            return None
        rubbish = json.dumps({"token": request.echo, "nested": [{"ip": request.echo}]})
        headers = dict.fromkeys(("x-request-id", "cf-ray", "x-amzn-requestid", "x-echo"), request.echo)
        return replace(fault, message=request.echo, text=rubbish, headers=headers)

    monkeypatch.setattr(server, "new_entry", noted)
    monkeypatch.setattr(server, "find_fault", told)


def check(what: str, text: str) -> None:
    """Check that no secret is in a text."""
    assert text, f"{what} is empty"
    for secret in SECRETS:
        for form in forms(secret):
            at = text.find(form)
            assert at < 0, f"{what} shows a secret: …{text[max(0, at - 200) : at + len(form)]}"


@pytest.fixture
def failing(aws_world: AWSWorld, monkeypatch: pytest.MonkeyPatch) -> AWSWorld:
    """A world with something of every kind, whose providers fail in every way."""
    world = aws_world
    world.expected_errors |= {"credentials refused", "provider plugin raised a foreign exception"}
    routed = Routed(world, "a", "b")
    routed.service(routed.machines[0])
    reference = routed.secret(f"{world.id}-token", {"DIGITALOCEAN_ACCESS_TOKEN": ISSUERS_TOKEN})
    name = f"{world.id}-secretly"
    routed.issue(name, routedIPFirewallName=routed.firewall, credentialsSecretRef=reference)
    routed.routed_ip(issuerRef={"name": name})
    world.cloudflare.account.add_zone("example.org")
    zone = {"zone": "example.org", "ttl": 60, "provider": "cloudflare"}
    world.pool("do", provider="digitalocean", region="nyc3", desiredIPs=1, dnsRecordSet={**zone, "recordName": "do"})
    world.ec2_node("aws")
    world.aws.account.add_zone("example.net")
    zone_of_aws = {"zone": "example.net", "recordName": "aws", "ttl": 60, "provider": "aws"}
    world.pool("aws", desiredIPs=1, dnsRecordSet=zone_of_aws, region="us-east-1")
    world.record_set(addressType="ExternalIP", dnsRecordSet={**zone, "recordName": "nodes"})
    world.record_set("of-aws", addressType="ExternalIP", dnsRecordSet={**zone_of_aws, "recordName": "nodes"})
    servers: tuple[APIServer[Any], ...] = (world.cloud, world.cloudflare, world.aws)
    for server, also in zip(servers, ((), (), (SECRET,)), strict=True):
        echoing(server, monkeypatch, *also)
        server.faults.add_all(list(FAULTS))
        server.faults.add(kind="status", status=401, times=-1)
    return world


def check_outside(world: AWSWorld, controller: Controller) -> None:
    """Check what the controller and the commands say."""
    log = controller.log()
    check("the log", log)
    assert log.count('"warning"') >= 8, log
    for path in ("/metrics", "/", "/healthz", "/readyz", "/nothing"):
        check(path, controller.get(path)[1])
    variables = {**world.variables(), "AWS_SESSION_TOKEN": SESSION}
    for arguments in (
        ("providers", "--verify", "--debug"),
        ("providers", "--verify", "-o", "json"),
        ("status", "-o", "json", "--debug"),
        ("plan", "--debug"),
    ):
        ran = run_command(*arguments, variables=variables)
        check(" ".join(arguments), ran.stdout + ran.stderr)


def check_inside(world: AWSWorld) -> None:
    """Check what is in the cluster, but for the Secret itself."""
    for kind in (POOL, RECORD_SET, ROUTED_IP):
        names = {POOL: ("do", "aws"), RECORD_SET: ("records", "of-aws"), ROUTED_IP: ("web",)}[kind]
        for name in names:
            check(f"{kind} {name}", json.dumps(world.resource(name, kind), ensure_ascii=False))
    check("the issuer", json.dumps(world.resource(f"{world.id}-secretly", ISSUER), ensure_ascii=False))
    check("the lease", json.dumps(world.lease()))
    for namespace in (world.namespace, "default", "flipop"):
        events = world.cluster.list_objects("Event", namespace, api_version="events.k8s.io/v1")
        check(f"events of {namespace}", json.dumps(events, ensure_ascii=False))
    check("nodes", json.dumps(world.cluster.list_objects("Node", None, api_version="v1"), ensure_ascii=False))


def test_a_run_in_which_everything_fails_shows_no_secret(failing: AWSWorld) -> None:
    world = failing
    controller = world.controller(*ARGUMENTS, variables={"AWS_SESSION_TOKEN": SESSION})
    controller.await_leading()

    def told() -> bool:
        reasons = [world.condition("Ready", name).get("reason") for name in ("do", "aws")]
        records = [world.condition("Ready", name, RECORD_SET).get("reason") for name in ("records", "of-aws")]
        return all((*reasons, *records)) and bool(world.condition("Ready", "web", ROUTED_IP))

    def faults_met() -> bool:
        journals = (world.cloud.journal, world.cloudflare.journal, world.aws.journal)
        return all(sum(bool(entry.fault) for entry in journal.entries()) >= 6 for journal in journals)

    world.until(told, "every resource to say what is wrong", 20.0)
    world.until(faults_met, "most ways to fail to have been met", 20.0)
    check_outside(world, controller)
    check_inside(world)
    assert controller.running
