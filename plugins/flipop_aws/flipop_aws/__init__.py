"""AWS for flipop: Elastic IPs on EC2 instances, Route 53 record sets, and security groups.

Install it beside the core; ``provider: aws`` in a ``FloatingIPPool``, a ``dnsRecordSet`` or a ``NodeDNSRecordSet`` then
selects it::

    pip install flipop-core flipop-aws

Environment
    Credentials come from the SDK's own chain: ``AWS_ACCESS_KEY_ID`` and the like, ``AWS_PROFILE``, IRSA, EKS Pod
    Identity, the instance profile; or from a Secret with the keys ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY`` and,
    if they are temporary, ``AWS_SESSION_TOKEN``. The least IAM policy is ``deploy/aws/iam-policy.json``.
    ``AWS_REGION``        the region of pools that name none, and whose nodes do not tell it.
    ``AWS_ENDPOINT_URL``, ``AWS_ENDPOINT_URL_EC2``, ``AWS_ENDPOINT_URL_ROUTE_53``  other API endpoints.
    ``HTTPS_PROXY``, ``NO_PROXY``  as usual.

What to know of the addresses
    - A node is ``aws:///<zone>/<instance ID>``. Each region is an account of its own: a pool's region is
      ``spec.region``, else that of its nodes, else the environment's. Addresses and nodes of two regions do not mix.
    - An address goes to the primary interface (device index 0) of the instance: to its primary private address, or to
      the first other one that has no Elastic IP. An instance holds as many as that interface has private addresses.
      Under the VPC CNI, which gives the other addresses to pods, it holds one: that is where an interface of the
      instance is described ``aws-K8S-…`` or has prefixes, and on every instance with a tag ``eks:…``. Where another
      CNI runs on nodes of EKS, one is all the same what they hold.
    - An Elastic IP takes the place of a public address that EC2 gave the instance at launch.
    - An address on an interface of no instance (a NAT gateway's, a load balancer's) is held by
      ``aws-interface:///<interface ID>``, and is neither moved nor taken off nor released: take it out of the pool.
    - EC2's reads lag behind its writes. For 20 s, what was done here counts for more than a read that does not show it,
      and an interrupted creation that does not show is not repeated.
    - While an availability zone is disrupted, EC2 refuses to list instances. Addresses can be moved all the same, and
      instances hold as many as they did at the last read.
    - What is created carries the tags ``flipop.digitalocean.com/pool``, ``…/cluster`` and ``…/claim``; the last one
      finds it again after an interrupted creation.
    - ``spec.ipSelector.tags`` selects existing addresses by their tags; ``spec.addressPool`` names a BYOIP pool
      (``ipv4pool-ec2-…``) or an IPAM pool (``ipam-pool-…``) to create from.
    - The instance's VPC needs an internet gateway. An account has 5 Elastic IPs for each region unless raised.
    - Addresses of a local or wavelength zone's own border group are used if they are given, and not created.

What to know of DNS
    - A zone is a hosted zone, by its name or its ID; see ``flipop_aws.route53``.

What to know of firewalls
    - A firewall is a security group of the region, by its name or its ID (``sg-…``); a name that groups of several VPCs
      have is refused. It applies to the instances whose primary interface has it.
    - Rules that are added carry the tag ``flipop.digitalocean.com/managed``, and only such are ever removed. EC2 has a
      rule for each CIDR: one that is there already, by whomever, is not added again, and stays.
    - Rules count from CIDRs alone, over TCP and UDP; all ports read as 1 to 65535. Rules by another group or a prefix
      list are neither looked at nor changed.
    - A group comes to an interface beside those that are there, up to 5 unless raised, and leaves it unless it is the
      last one. EC2 can only replace all groups of an interface: nothing else should change them at the same moment.
    - A group has 60 inbound rules unless raised; a port that is open to IPv4 and IPv6 takes two of them.
    - Changes are effective at once. Reads may show them later: the firewall is ``in_progress`` until then, for 20 s at
      most. Nothing here opens node ports by itself (``opens_node_ports`` is off).

Calls
    Reading a security group is three calls: the group, its rules, the interfaces that have it. Changing it is two
    reads, and one call for all rules, or one for each instance.
    Reading a region costs one ``DescribeAddresses``, and one ``DescribeInstances`` for up to 200 nodes; for more, one
    for each 1,000 instances of the region. The first one costs a ``DescribeInstances`` more, and so does a holder that
    is new and no node. Assigning is one ``DescribeInstances`` and one ``AssociateAddress``, creating one
    ``DescribeAddresses`` and one ``AllocateAddress``, unassigning and deleting one ``DescribeAddresses`` and a change.
    The SDK repeats a read of EC2 once, and never a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flipop_core import (
    CredentialSpec,
    DNSProvider,
    FirewallProvider,
    IPProvider,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    hookimpl,
)

flipop_api_version = "1.0"

CAPABILITIES = ProviderCapabilities(
    atomic_reassign=True,
    max_ips_per_node=1,
    address_families=("IPv4",),
    max_concurrency=8,
    node_limits=True,
    address_tags=True,
    address_pools=True,
)
"""Of the IP provider."""

DNS_CAPABILITIES = ProviderCapabilities(
    address_families=("IPv4", "IPv6"),
    record_types=("A", "AAAA", "TXT"),
    max_concurrency=4,  # five requests a second are all that an account has
)
"""Of the DNS provider."""

FIREWALL_CAPABILITIES = ProviderCapabilities(
    opens_node_ports=False,
    max_concurrency=4,  # changes of rules have the lowest rate limits of all
)
"""Of the firewall provider."""

CREDENTIALS = (
    CredentialSpec("AWS_ACCESS_KEY_ID", "access key, instead of the SDK's own chain", required=False),
    CredentialSpec("AWS_SECRET_ACCESS_KEY", "secret of that access key", required=False),
    CredentialSpec("AWS_SESSION_TOKEN", "session token of temporary keys", required=False),
)

__all__ = [
    "CAPABILITIES",
    "CREDENTIALS",
    "DNS_CAPABILITIES",
    "FIREWALL_CAPABILITIES",
    "build_dns_provider",
    "build_firewall_provider",
    "build_ip_provider",
    "flipop_api_version",
    "flipop_dns_providers",
    "flipop_firewall_providers",
    "flipop_ip_providers",
]


def build_ip_provider(context: ProviderContext) -> IPProvider:
    """Return the IP provider for one account and region. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_aws.addresses import ElasticIPs
    from flipop_aws.client import Client

    return ElasticIPs(Client(context, "ec2"))


def build_dns_provider(context: ProviderContext) -> DNSProvider:
    """Return the DNS provider for one account. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_aws.route53 import build_dns_provider as build

    return build(context)


def build_firewall_provider(context: ProviderContext) -> FirewallProvider:
    """Return the firewall provider for one account and region. Imports the SDK, makes no call. Errors: ConfigError."""
    from flipop_aws.client import Client
    from flipop_aws.groups import SecurityGroups
    from flipop_aws.groups_api import GroupsApi

    return SecurityGroups(GroupsApi(Client(context, "ec2")))


def _region_of(provider_id: str) -> str:
    from flipop_aws.instances import region_of

    return region_of(provider_id)


@hookimpl
def flipop_ip_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the IP provider ``aws``."""
    return [_factory("AWS Elastic IPs on EC2 instances", build_ip_provider, CAPABILITIES, _region_of)]


@hookimpl
def flipop_dns_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the DNS provider ``aws``."""
    return [_factory("DNS records in Route 53 hosted zones", build_dns_provider, DNS_CAPABILITIES, None)]


@hookimpl
def flipop_firewall_providers() -> Sequence[ProviderFactory]:
    """Return the factory of the firewall provider ``aws``."""
    summary = "AWS security groups of EC2 instances"
    return [_factory(summary, build_firewall_provider, FIREWALL_CAPABILITIES, _region_of)]


def _factory(
    summary: str,
    build: Callable[[ProviderContext], object],
    capabilities: ProviderCapabilities,
    region_of: Callable[[str], str] | None,
) -> ProviderFactory:
    return ProviderFactory(
        name="aws",
        summary=summary,
        credentials=CREDENTIALS,
        build=build,
        capabilities=capabilities,
        region_of=region_of,
    )
