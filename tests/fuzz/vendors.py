"""The providers of all plugins and the calls of each, with what their test servers answer to them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import flipop_aws
import flipop_cloudflare
import flipop_do
from flipop_aws.route53 import build_dns_provider as build_route53
from flipop_aws_testserver import AWSServer
from flipop_aws_testserver import Settings as AWSSettings
from flipop_cloudflare_testserver import CloudflareServer
from flipop_core import CreateRequest, Firewall, FirewallRule, ProviderContext, RecordSet
from flipop_do.dns import DomainRecordSets
from flipop_do_testserver import DigitalOceanServer, Settings

from .replay import Exchange, Replay

SECRETS = {
    "DIGITALOCEAN_ACCESS_TOKEN": "dop_v1_fuzz_0123456789abcdef",
    "CLOUDFLARE_TOKEN": "cf_fuzz_0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "fuzz/secret+access/key/0123456789abcdef",
    "AWS_SESSION_TOKEN": "fuzz+session/token==0123456789abcdef",
}
KEY = "AKIAFUZZ0123456789AB"
TIMEOUT_SECONDS = 2.0
RECORDING_SECONDS = 30.0
RULE = FirewallRule("tcp", 443)


class Case(NamedTuple):
    """A call of a provider, and what was answered to its requests."""

    name: str
    build: Callable[[str, float], Any]
    call: Callable[[Any], object]
    exchanges: tuple[Exchange, ...]

    def __str__(self) -> str:
        return self.name


def context(url: str, seconds: float, *variables: str, **options: Any) -> ProviderContext:
    """Return what a provider is built with."""
    credentials = {name: SECRETS.get(name, KEY) for name in variables}
    return ProviderContext(credentials, endpoint=url, timeout_seconds=seconds, **options)


def digitalocean(url: str, seconds: float) -> ProviderContext:
    """Return DigitalOcean's."""
    return context(url, seconds, "DIGITALOCEAN_ACCESS_TOKEN", region="nyc3")


def cloudflare(url: str, seconds: float) -> ProviderContext:
    """Return Cloudflare's."""
    return context(f"{url}/client/v4", seconds, "CLOUDFLARE_TOKEN")


def aws(url: str, seconds: float) -> ProviderContext:
    """Return that of AWS, with a session's token."""
    return context(url, seconds, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", region="us-east-1")


class Recorder:
    """Makes cases: each call is made once, to the real test server, through ``replay``."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def case(self, name: str, server: str, build: Callable[[str, float], Any], call: Callable[[Any], object]) -> Case:
        """Return a call with what its server, which ends in ``server``, answers now."""
        provider = build(self._replay.url, RECORDING_SECONDS)
        exchanges = self._replay.record(server, functools.partial(call, provider))
        assert exchanges, name
        assert all(200 <= each.answer.status < 300 for each in exchanges), (name, exchanges)
        return Case(name, build, call, tuple(exchanges))


def digitalocean_cases(recorder: Recorder, server: DigitalOceanServer) -> Iterator[Case]:
    """Yield the cases of reserved IPs, domains and cloud firewalls."""
    account = server.account
    first, second = (account.add_droplet(f"node-{number}", "nyc3") for number in range(2))
    node, other = f"digitalocean://{first}", f"digitalocean://{second}"
    address = account.add_address()
    make = functools.partial(recorder.case, server=server.url)

    def ips(url: str, seconds: float) -> Any:
        return flipop_do.build_ip_provider(digitalocean(url, seconds))

    yield make("do list", build=ips, call=lambda ip: ip.list_addresses([address]))
    yield make("do describe", build=ips, call=lambda ip: ip.describe([address]))
    yield make("do verify", build=ips, call=lambda ip: ip.verify())
    yield make("do assign", build=ips, call=lambda ip: ip.assign(address, node))
    yield make("do create", build=ips, call=lambda ip: ip.create(CreateRequest("c1", provider_id=other)))
    server.domains.add("example.com")

    def dns(url: str, seconds: float) -> Any:
        return flipop_do.build_dns_provider(digitalocean(url, seconds))

    assert isinstance(dns(server.url, RECORDING_SECONDS), DomainRecordSets)
    wanted = RecordSet("www.example.com", "A", 60, ("192.0.2.1",))
    yield make("do dns ensure", build=dns, call=lambda each: each.ensure_record_set("example.com", wanted))
    changed = RecordSet("www.example.com", "A", 60, ("192.0.2.2", "192.0.2.3"))
    yield make("do dns change", build=dns, call=lambda each: each.ensure_record_set("example.com", changed))
    yield make("do dns get", build=dns, call=lambda each: each.get_record_set("example.com", "www.example.com", "A"))
    yield make("do dns delete", build=dns, call=lambda each: each.delete_record_set("example.com", wanted.name, "A"))
    server.firewalls.add("edge")

    def firewalls(url: str, seconds: float) -> Any:
        return flipop_do.build_firewall_provider(digitalocean(url, seconds))

    firewall = firewalls(server.url, RECORDING_SECONDS).get_firewall("edge")
    yield make("do firewall get", build=firewalls, call=lambda each: each.get_firewall("edge"))
    yield make("do firewall rules", build=firewalls, call=lambda each: each.add_rules(firewall, [RULE]))
    yield make("do firewall nodes", build=firewalls, call=lambda each: each.add_nodes(firewall, [node]))


def cloudflare_cases(recorder: Recorder, server: CloudflareServer) -> Iterator[Case]:
    """Yield the cases of DNS records."""
    zone = "example.com"
    server.account.add_zone(zone)
    make = functools.partial(recorder.case, server=server.url.removesuffix("/client/v4"))

    def dns(url: str, seconds: float) -> Any:
        return flipop_cloudflare.build_dns_provider(cloudflare(url, seconds))

    name = "www.example.com"
    one, two = (RecordSet(name, "A", 60, values) for values in (("192.0.2.1",), ("192.0.2.2", "192.0.2.3")))
    yield make("cf ensure", build=dns, call=lambda each: each.ensure_record_set(zone, one))
    yield make("cf get", build=dns, call=lambda each: each.get_record_set(zone, name, "A"))
    yield make("cf change", build=dns, call=lambda each: each.ensure_record_set(zone, two))
    yield make("cf delete", build=dns, call=lambda each: each.delete_record_set(zone, name, "A"))
    yield make("cf verify", build=dns, call=lambda each: each.verify())


def aws_cases(recorder: Recorder, server: AWSServer) -> Iterator[Case]:
    """Yield the cases of Elastic IPs, Route 53 and security groups."""
    account = server.account
    node = account.add_instance().provider_id
    address = account.add_address()
    make = functools.partial(recorder.case, server=server.url)

    def ips(url: str, seconds: float) -> Any:
        return flipop_aws.build_ip_provider(aws(url, seconds))

    def assign_known(provider: Any) -> object:
        return provider.assign(address, node)

    yield make("aws create", build=ips, call=lambda ip: ip.create(CreateRequest("c1", region="us-east-1")))
    yield make("aws assign", build=ips, call=assign_known)
    yield make("aws list", build=ips, call=lambda ip: ip.list_addresses([address]))
    yield make("aws limits", build=ips, call=lambda ip: ip.node_limits([node]))
    yield make("aws verify", build=ips, call=lambda ip: ip.verify())
    yield make("aws unassign", build=ips, call=lambda ip: ip.unassign(address))
    yield make("aws delete", build=ips, call=lambda ip: ip.delete(address))
    zone = account.add_zone("example.com")

    def dns(url: str, seconds: float) -> Any:
        return build_route53(aws(url, seconds))

    wanted = RecordSet("www.example.com", "A", 60, ("192.0.2.1",))
    yield make("aws dns ensure", build=dns, call=lambda each: each.ensure_record_set("example.com", wanted))
    yield make("aws dns get", build=dns, call=lambda each: each.get_record_set(zone, "www.example.com", "A"))
    yield make("aws dns delete", build=dns, call=lambda each: each.delete_record_set("example.com", wanted.name, "A"))
    account.add_group("edge")

    def groups(url: str, seconds: float) -> Any:
        return flipop_aws.build_firewall_provider(aws(url, seconds))

    firewall: Firewall = groups(server.url, RECORDING_SECONDS).get_firewall("edge")
    yield make("aws group get", build=groups, call=lambda each: each.get_firewall("edge"))
    yield make("aws group rules", build=groups, call=lambda each: each.add_rules(firewall, [RULE]))
    yield make("aws group nodes", build=groups, call=lambda each: each.add_nodes(firewall, [node]))
    yield make("aws group revoke", build=groups, call=lambda each: each.remove_rules(firewall, [RULE]))


def all_cases(replay: Replay) -> tuple[Case, ...]:
    """Return every case, recorded just now."""
    with ExitStack() as stack:
        do = stack.enter_context(DigitalOceanServer(Settings(action_seconds=0.0)))
        cf = stack.enter_context(CloudflareServer())
        amazon = stack.enter_context(AWSServer(AWSSettings(access_key_id=KEY)))
        recorder = Recorder(replay)
        return (
            *digitalocean_cases(recorder, do),
            *cloudflare_cases(recorder, cf),
            *aws_cases(recorder, amazon),
        )
