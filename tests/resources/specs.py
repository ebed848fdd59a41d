"""Specs that the API server and the parser must agree on: what is accepted, and what is refused for which field."""

from __future__ import annotations

from typing import Any, NamedTuple

POOL = "FloatingIPPool"
RECORD_SET = "NodeDNSRecordSet"

Spec = dict[str, Any]


class Case(NamedTuple):
    """``refused`` is the field to blame, empty when the spec is good."""

    name: str
    kind: str
    spec: Spec
    refused: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"


INGRESS_MATCH: Spec = {
    "podNamespace": "edge",
    "podLabel": "app.kubernetes.io/name=ingress,tier=front",
    "nodeLabel": "cloud.example.com/node-group=edge",
    "tolerations": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
}
FULL_POOL: Spec = {
    "provider": "digitalocean",
    "region": "ams3",
    "desiredIPs": 3,
    "ips": ["203.0.113.7", "203.0.113.8"],
    "assignmentCoolOffSeconds": 20,
    "dnsRecordSet": {"zone": "example.org", "recordName": "www", "ttl": 90, "provider": "cloudflare"},
    "match": INGRESS_MATCH,
}
FULL_RECORD_SET: Spec = {
    "provider": "digitalocean",
    "dnsRecordSet": {"zone": "example.org", "recordName": "nodes", "ttl": 90},
    "match": INGRESS_MATCH,
}
RECORD: Spec = {"zone": "example.org", "recordName": "nodes"}


def pool(**fields: Any) -> Spec:
    """Return a good pool spec with ``fields`` in place of, or beside, its own."""
    return {"provider": "digitalocean", "desiredIPs": 1, **fields}


def pool_match(**fields: Any) -> Spec:
    """Return a good pool spec with ``fields`` in its match."""
    return pool(match=fields)


def record_set(**fields: Any) -> Spec:
    """Return a good record set spec with ``fields`` in place of, or beside, its own."""
    return {"dnsRecordSet": dict(RECORD), **fields}


# What manifests of digitalocean/flipop look like, and what its Go client writes: null for an empty list, "" and 0 for
# what is not set.
ACCEPTED = (
    Case("every field of the original", POOL, FULL_POOL),
    Case("every field of the original", RECORD_SET, FULL_RECORD_SET),
    Case("as the Go client writes it", POOL, pool(ips=None, match={}, dnsRecordSet=None)),
    Case(
        "as the Go client writes it",
        RECORD_SET,
        {
            "match": {},
            "addressType": "",
            "dnsRecordSet": {"provider": "", "zone": "example.org", "recordName": "nodes", "ttl": 0},
        },
    ),
    Case("a null match and null tolerations", POOL, pool_match(tolerations=None)),
    Case("null in place of what is optional", POOL, pool(region=None, match=None, assignmentCoolOffSeconds=None)),
    Case("nothing but addresses", POOL, {"provider": "digitalocean", "ips": ["203.0.113.7"]}),
    Case("nothing but tags", POOL, {"provider": "aws", "ipSelector": {"tags": {"team": "web", "kubernetes.io/x": ""}}}),
    Case("an address pool", POOL, pool(addressPool="ipv4pool-ec2-0123456789abcdef0")),
    Case("an address that belongs to its user", POOL, pool(ips=["192.0.2.1"])),
    Case("IPv6", POOL, pool(ips=["2001:DB8::0001", "::1"])),
    Case("an address twice", POOL, pool(ips=["203.0.113.7", "203.0.113.7"])),
    Case("a DNS record set without a name", POOL, pool(dnsRecordSet={"provider": "", "zone": "", "ttl": 0})),
    Case("a fraction of a second", POOL, pool(assignmentCoolOffSeconds=0.5)),
    Case("a provider from elsewhere", POOL, pool(provider="example-cloud")),
    Case("addresses given back", POOL, pool(reclaimPolicy="Delete")),
    Case("a toleration for everything", POOL, pool_match(tolerations=[{"operator": "Exists"}])),
    Case(
        "a toleration with every field",
        POOL,
        pool_match(
            tolerations=[
                {"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoExecute", "tolerationSeconds": 30}
            ]
        ),
    ),
    Case("empty strings in a toleration", POOL, pool_match(tolerations=[{"operator": "", "effect": "", "key": "a"}])),
    Case("blank selectors", POOL, pool_match(nodeLabel=" ", podLabel="")),
    Case("every kind of term", POOL, pool_match(nodeLabel="a=b, c!=d,e in (f, g),h notin(i),j,!k,l==m,n=")),
    Case("prefixed keys", POOL, pool_match(podLabel="app.kubernetes.io/name in (web),!example.com/canary")),
    Case("terms named like operators", POOL, pool_match(nodeLabel="in in (notin),notin=in,!in")),
    Case("empty values", POOL, pool_match(nodeLabel="a in (),b in (,c),d notin ( , )")),
    Case("a pod namespace alone", POOL, pool_match(podNamespace="edge")),
    Case("the internal address", RECORD_SET, record_set(addressType="InternalIP")),
    Case("the reserved address", RECORD_SET, record_set(addressType="flipop.digitalocean.com/ipv4-reserved-ip")),
    Case("the zone itself", RECORD_SET, record_set(dnsRecordSet={"zone": "example.org", "recordName": "@"})),
)

REFUSED = (
    Case("a selector without tags", POOL, pool(ipSelector={}), "spec.ipSelector.tags"),
    Case("a selector of no tag", POOL, pool(ipSelector={"tags": {}}), "spec.ipSelector.tags"),
    Case("an empty key", POOL, pool(ipSelector={"tags": {"": "web"}}), "spec.ipSelector.tags"),
    Case("a long key", POOL, pool(ipSelector={"tags": {"k" * 129: "web"}}), "spec.ipSelector.tags"),
    Case("51 tags", POOL, pool(ipSelector={"tags": {f"k{n}": "" for n in range(51)}}), "spec.ipSelector.tags"),
    Case("a long address pool", POOL, pool(addressPool="p" * 257), "spec.addressPool"),
    Case("no provider", POOL, {"desiredIPs": 1}, "spec.provider"),
    Case("a null provider", POOL, pool(provider=None), "spec.provider"),
    Case("an empty provider", POOL, pool(provider=""), "spec.provider"),
    Case("a provider that is no string", POOL, pool(provider=5), "spec.provider"),
    Case("neither a number nor addresses", POOL, {"provider": "digitalocean"}, "spec.desiredIPs"),
    Case("no addresses wanted", POOL, pool(desiredIPs=0, ips=[]), "spec.desiredIPs"),
    Case("no addresses wanted, as Go writes it", POOL, pool(desiredIPs=0, ips=None), "spec.desiredIPs"),
    Case("fewer than none", POOL, pool(desiredIPs=-1, ips=["203.0.113.7"]), "spec.desiredIPs"),
    Case("too many", POOL, pool(desiredIPs=1001), "spec.desiredIPs"),
    Case("half an address", POOL, pool(desiredIPs=1.5), "spec.desiredIPs"),
    Case("a number in quotes", POOL, pool(desiredIPs="1"), "spec.desiredIPs"),
    Case("no address", POOL, pool(ips=["203.0.113.7", "203.0.113.300"]), "spec.ips[1]"),
    Case("a network", POOL, pool(ips=["203.0.113.0/24"]), "spec.ips[0]"),
    Case("a name", POOL, pool(ips=["example.org"]), "spec.ips[0]"),
    Case("leading zeros", POOL, pool(ips=["203.0.113.07"]), "spec.ips[0]"),
    Case("an empty address", POOL, pool(ips=[""]), "spec.ips[0]"),
    Case("too long for an address", POOL, pool(ips=["1" * 46]), "spec.ips[0]"),
    Case("null among the addresses", POOL, pool(ips=[None]), "spec.ips[0]"),
    Case("one address, not a list", POOL, pool(ips="203.0.113.7"), "spec.ips"),
    Case("a negative cool-off", POOL, pool(assignmentCoolOffSeconds=-0.1), "spec.assignmentCoolOffSeconds"),
    Case("a cool-off with a unit", POOL, pool(assignmentCoolOffSeconds="20s"), "spec.assignmentCoolOffSeconds"),
    Case("an unknown policy", POOL, pool(reclaimPolicy="Recycle"), "spec.reclaimPolicy"),
    Case("a list for match", POOL, pool(match=[]), "spec.match"),
    Case(
        "an unknown operator", POOL, pool_match(tolerations=[{"operator": "In"}]), "spec.match.tolerations[0].operator"
    ),
    Case("an unknown effect", POOL, pool_match(tolerations=[{}, {"effect": "no"}]), "spec.match.tolerations[1].effect"),
    Case("a value without a key", POOL, pool_match(nodeLabel="=web"), "spec.match.nodeLabel"),
    Case("a term without a comma", POOL, pool_match(nodeLabel="a b"), "spec.match.nodeLabel"),
    Case("a trailing comma", POOL, pool_match(nodeLabel="a,"), "spec.match.nodeLabel"),
    Case("an open list", POOL, pool_match(podLabel="a in (b"), "spec.match.podLabel"),
    Case("in without a list", POOL, pool_match(podLabel="a in b"), "spec.match.podLabel"),
    Case("no label value", POOL, pool_match(podLabel="a=-b"), "spec.match.podLabel"),
    Case("no label key", POOL, pool_match(podLabel="Example.com/a"), "spec.match.podLabel"),
    Case("a long label value", POOL, pool_match(podLabel="a=" + "b" * 64), "spec.match.podLabel"),
    Case("a regular expression", POOL, pool_match(podLabel="a=b.*"), "spec.match.podLabel"),
    Case("a negative TTL", POOL, pool(dnsRecordSet={"ttl": -1}), "spec.dnsRecordSet.ttl"),
    Case("a bad selector", RECORD_SET, record_set(match={"nodeLabel": "a=b=c"}), "spec.match.nodeLabel"),
    Case("a host name's address", RECORD_SET, record_set(addressType="Hostname"), "spec.addressType"),
    Case("no DNS record set", RECORD_SET, {"provider": "digitalocean"}, "spec.dnsRecordSet"),
    Case("no zone", RECORD_SET, record_set(dnsRecordSet={"recordName": "nodes"}), "spec.dnsRecordSet.zone"),
    Case("an empty zone", RECORD_SET, record_set(dnsRecordSet={**RECORD, "zone": ""}), "spec.dnsRecordSet.zone"),
    Case(
        "no record name", RECORD_SET, record_set(dnsRecordSet={"zone": "example.org"}), "spec.dnsRecordSet.recordName"
    ),
    Case("a huge TTL", RECORD_SET, record_set(dnsRecordSet={**RECORD, "ttl": 2**31}), "spec.dnsRecordSet.ttl"),
)
