"""AWS for flipop: Elastic IPs on EC2 instances, and Route 53 record sets.

Install it beside the core; ``provider: aws`` in a ``FloatingIPPool``, a ``dnsRecordSet`` or a ``NodeDNSRecordSet`` then
selects it::

    pip install flipop-core flipop-aws

Environment
    Credentials come from the SDK's own chain: ``AWS_ACCESS_KEY_ID`` and the like, ``AWS_PROFILE``, IRSA, EKS Pod
    Identity, the instance profile. The least IAM policy is ``deploy/iam-policy.json``.
    ``AWS_REGION``        the region of pools that name none, and whose nodes do not tell it.
    ``AWS_ENDPOINT_URL``, ``AWS_ENDPOINT_URL_EC2``, ``AWS_ENDPOINT_URL_ROUTE_53``  other API endpoints.
    ``HTTPS_PROXY``, ``NO_PROXY``  as usual.

What to know of the addresses
    - A node is ``aws:///<zone>/<instance ID>``. Each region is an account of its own: a pool's region is
      ``spec.region``, else that of its nodes, else the environment's. Addresses and nodes of two regions do not mix.
    - An address goes to the primary interface (device index 0) of the instance: to its primary private address, or to
      the first other one that has no Elastic IP. An instance holds as many as that interface has private addresses.
      Under the VPC CNI, which gives the other addresses to pods, it holds one.
    - An Elastic IP takes the place of a public address that EC2 gave the instance at launch.
    - What is created carries the tags ``flipop.digitalocean.com/pool``, ``…/cluster`` and ``…/claim``; the last one
      finds it again after an interrupted creation.
    - ``spec.ipSelector.tags`` selects existing addresses by their tags; ``spec.addressPool`` names a BYOIP pool
      (``ipv4pool-ec2-…``) or an IPAM pool (``ipam-pool-…``) to create from.
    - The instance's VPC needs an internet gateway. An account has 5 Elastic IPs for each region unless raised.

What to know of DNS
    - A zone is a hosted zone, by its name or its ID; see ``flipop_aws.route53``.

Calls
    Reading a region costs one ``DescribeAddresses``, and one ``DescribeInstances`` for 200 nodes. Assigning is one
    ``DescribeInstances`` and one ``AssociateAddress``; the SDK repeats reads of EC2, and never a change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flipop_core import (
    CredentialSpec,
    DNSProvider,
    IPProvider,
    ProviderCapabilities,
    ProviderContext,
    ProviderFactory,
    hookimpl,
)

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

CREDENTIALS = (
    CredentialSpec("AWS_ACCESS_KEY_ID", "access key, instead of the SDK's own chain", required=False),
    CredentialSpec("AWS_SECRET_ACCESS_KEY", "secret of that access key", required=False),
    CredentialSpec("AWS_SESSION_TOKEN", "session token of temporary keys", required=False),
)

__all__ = [
    "CAPABILITIES",
    "CREDENTIALS",
    "DNS_CAPABILITIES",
    "build_dns_provider",
    "build_ip_provider",
    "flipop_dns_providers",
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
