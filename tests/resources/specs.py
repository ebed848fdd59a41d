"""Specs that the API server and the parser must agree on: what is accepted, and what is refused for which field."""

from __future__ import annotations

from typing import Any, NamedTuple

POOL = "FloatingIPPool"
RECORD_SET = "NodeDNSRecordSet"
ROUTED_IP = "RoutedIP"
ISSUER = "RoutedIPIssuer"

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
FULL_ROUTED_IP: Spec = {
    "issuerRef": {"name": "ams3.digitalocean"},
    "serviceRef": {"name": "ingress", "namespace": "edge"},
    "routedIP": "203.0.113.7",
    "match": INGRESS_MATCH,
    "routedIPReclaimPolicy": "Delete",
    "routedIPFirewallName": "edge",
    "dnsRecordSet": {"zone": "example.org", "recordName": "www", "ttl": 90, "provider": "cloudflare"},
}
FULL_ISSUER: Spec = {
    "provider": "digitalocean",
    "region": "ams3",
    "credentialsSecretRef": {"namespace": "flipop", "name": "digitalocean.token"},
    "perNodeIPLimit": 2,
    "nodePortRange": "30000-32767",
    "routedIPFirewallName": "workers",
    "firewallPostAllow": True,
    "routedIPReclaimPolicy": "Delete",
    "serviceNamespaces": ["edge", "ingress-2"],
}


def pool(**fields: Any) -> Spec:
    """Return a good pool spec with ``fields`` in place of, or beside, its own."""
    return {"provider": "digitalocean", "desiredIPs": 1, **fields}


def pool_match(**fields: Any) -> Spec:
    """Return a good pool spec with ``fields`` in its match."""
    return pool(match=fields)


def record_set(**fields: Any) -> Spec:
    """Return a good record set spec with ``fields`` in place of, or beside, its own."""
    return {"dnsRecordSet": dict(RECORD), **fields}


def routed_ip(**fields: Any) -> Spec:
    """Return a good spec of a RoutedIP with ``fields`` in place of, or beside, its own."""
    return {"issuerRef": {"name": "ams3"}, "serviceRef": {"name": "ingress"}, **fields}


def issuer(**fields: Any) -> Spec:
    """Return a good issuer spec with ``fields`` in place of, or beside, its own."""
    return {"provider": "digitalocean", **fields}


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
    Case(
        "graces and brakes",
        POOL,
        pool(
            gracePeriods={"nodeNotReadySeconds": 60, "podNotReadySeconds": 0.5, "cordonedSeconds": 604800},
            stabilizationSeconds=120,
            maxMovesPerMinute=10,
            maxUnavailablePercent=50,
            paused=True,
        ),
    ),
    Case(
        "no grace and no brake",
        POOL,
        pool(gracePeriods={}, stabilizationSeconds=0, maxMovesPerMinute=0, maxUnavailablePercent=0, paused=False),
    ),
    Case("null graces and brakes", POOL, pool(gracePeriods=None, stabilizationSeconds=None, paused=None)),
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
    Case("terms that compare numbers", POOL, pool_match(nodeLabel="a>4, b < 10,in>1")),
    Case("terms named like operators", POOL, pool_match(nodeLabel="in in (notin),notin=in,!in")),
    Case("empty values", POOL, pool_match(nodeLabel="a in (),b in (,c),d notin ( , )")),
    Case("a pod namespace alone", POOL, pool_match(podNamespace="edge")),
    Case("the internal address", RECORD_SET, record_set(addressType="InternalIP")),
    Case("the reserved address", RECORD_SET, record_set(addressType="flipop.digitalocean.com/ipv4-reserved-ip")),
    Case("the zone itself", RECORD_SET, record_set(dnsRecordSet={"zone": "example.org", "recordName": "@"})),
    Case("every field", ROUTED_IP, FULL_ROUTED_IP),
    Case("nothing but what is needed", ROUTED_IP, routed_ip()),
    Case(
        "as a Go client would write it",
        ROUTED_IP,
        routed_ip(
            serviceRef={"name": "ingress", "namespace": ""},
            routedIP="",
            match={},
            routedIPReclaimPolicy="",
            routedIPFirewallName="",
            dnsRecordSet=None,
        ),
    ),
    Case("null in place of what is optional", ROUTED_IP, routed_ip(routedIP=None, match=None, dnsRecordSet=None)),
    Case("IPv6", ROUTED_IP, routed_ip(routedIP="2001:DB8::0001")),
    Case("a name that begins with a digit", ROUTED_IP, routed_ip(serviceRef={"name": "3-tier"})),
    Case("the longest names", ROUTED_IP, routed_ip(serviceRef={"name": "s" * 63, "namespace": "n" * 63})),
    Case("every field", ISSUER, FULL_ISSUER),
    Case("nothing but the provider", ISSUER, issuer()),
    Case(
        "as a Go client would write it",
        ISSUER,
        issuer(region="", credentialsSecretRef=None, perNodeIPLimit=0, serviceNamespaces=None, firewallPostAllow=False),
    ),
    Case("null in place of what is optional", ISSUER, issuer(nodePortRange=None, routedIPReclaimPolicy=None)),
    Case("no range of node ports", ISSUER, issuer(nodePortRange="")),
    Case("one node port", ISSUER, issuer(nodePortRange="443-443")),
    Case("all ports", ISSUER, issuer(nodePortRange="1-65535")),
    Case("services of every namespace", ISSUER, issuer(serviceNamespaces=["*"])),
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
    Case(
        "a negative grace", POOL, pool(gracePeriods={"podNotReadySeconds": -1}), "spec.gracePeriods.podNotReadySeconds"
    ),
    Case(
        "a grace of more than a week",
        POOL,
        pool(gracePeriods={"nodeNotReadySeconds": 604801}),
        "spec.gracePeriods.nodeNotReadySeconds",
    ),
    Case(
        "a grace with a unit", POOL, pool(gracePeriods={"cordonedSeconds": "5m"}), "spec.gracePeriods.cordonedSeconds"
    ),
    Case("a negative stabilization", POOL, pool(stabilizationSeconds=-1), "spec.stabilizationSeconds"),
    Case("a negative number of moves", POOL, pool(maxMovesPerMinute=-1), "spec.maxMovesPerMinute"),
    Case("a fraction of a move", POOL, pool(maxMovesPerMinute=0.5), "spec.maxMovesPerMinute"),
    Case("a hundred percent", POOL, pool(maxUnavailablePercent=100), "spec.maxUnavailablePercent"),
    Case("a pause that is no boolean", POOL, pool(paused="yes"), "spec.paused"),
    Case("a cool-off with a unit", POOL, pool(assignmentCoolOffSeconds="20s"), "spec.assignmentCoolOffSeconds"),
    Case("an unknown policy", POOL, pool(reclaimPolicy="Recycle"), "spec.reclaimPolicy"),
    Case("a list for match", POOL, pool(match=[]), "spec.match"),
    Case(
        "an unknown operator", POOL, pool_match(tolerations=[{"operator": "In"}]), "spec.match.tolerations[0].operator"
    ),
    Case("an unknown effect", POOL, pool_match(tolerations=[{}, {"effect": "no"}]), "spec.match.tolerations[1].effect"),
    Case("a value without a key", POOL, pool_match(nodeLabel="=web"), "spec.match.nodeLabel"),
    Case("a term without a comma", POOL, pool_match(nodeLabel="a b"), "spec.match.nodeLabel"),
    Case("a comparison with no number", POOL, pool_match(nodeLabel="a>b"), "spec.match.nodeLabel"),
    Case("a comparison of a kind that is none", POOL, pool_match(nodeLabel="a>=1"), "spec.match.nodeLabel"),
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
    Case("no issuer", ROUTED_IP, {"serviceRef": {"name": "ingress"}}, "spec.issuerRef"),
    Case("a null issuer", ROUTED_IP, routed_ip(issuerRef=None), "spec.issuerRef"),
    Case("an issuer without a name", ROUTED_IP, routed_ip(issuerRef={}), "spec.issuerRef.name"),
    Case("an empty name of an issuer", ROUTED_IP, routed_ip(issuerRef={"name": ""}), "spec.issuerRef.name"),
    Case("no name of an issuer", ROUTED_IP, routed_ip(issuerRef={"name": "Ams3"}), "spec.issuerRef.name"),
    Case("a long name of an issuer", ROUTED_IP, routed_ip(issuerRef={"name": "a" * 254}), "spec.issuerRef.name"),
    Case("no service", ROUTED_IP, {"issuerRef": {"name": "ams3"}}, "spec.serviceRef"),
    Case("a service as one word", ROUTED_IP, routed_ip(serviceRef="edge/ingress"), "spec.serviceRef"),
    Case("a service without a name", ROUTED_IP, routed_ip(serviceRef={"namespace": "edge"}), "spec.serviceRef.name"),
    Case("an empty name of a service", ROUTED_IP, routed_ip(serviceRef={"name": ""}), "spec.serviceRef.name"),
    Case("a path", ROUTED_IP, routed_ip(serviceRef={"name": "edge/ingress"}), "spec.serviceRef.name"),
    Case("two services", ROUTED_IP, routed_ip(serviceRef={"name": "a,metadata.name=b"}), "spec.serviceRef.name"),
    Case("a long name of a service", ROUTED_IP, routed_ip(serviceRef={"name": "s" * 64}), "spec.serviceRef.name"),
    Case(
        "no name of a namespace",
        ROUTED_IP,
        routed_ip(serviceRef={"name": "ingress", "namespace": "kube system"}),
        "spec.serviceRef.namespace",
    ),
    Case(
        "a long name of a namespace",
        ROUTED_IP,
        routed_ip(serviceRef={"name": "ingress", "namespace": "n" * 64}),
        "spec.serviceRef.namespace",
    ),
    Case("no address", ROUTED_IP, routed_ip(routedIP="203.0.113.300"), "spec.routedIP"),
    Case("a network", ROUTED_IP, routed_ip(routedIP="203.0.113.0/24"), "spec.routedIP"),
    Case("too long for an address", ROUTED_IP, routed_ip(routedIP="1" * 46), "spec.routedIP"),
    Case("two addresses", ROUTED_IP, routed_ip(routedIP=["203.0.113.7", "203.0.113.8"]), "spec.routedIP"),
    Case("a bad selector", ROUTED_IP, routed_ip(match={"nodeLabel": "a=b=c"}), "spec.match.nodeLabel"),
    Case("an unknown policy", ROUTED_IP, routed_ip(routedIPReclaimPolicy="Keep"), "spec.routedIPReclaimPolicy"),
    Case("a long firewall", ROUTED_IP, routed_ip(routedIPFirewallName="f" * 256), "spec.routedIPFirewallName"),
    Case("a negative TTL", ROUTED_IP, routed_ip(dnsRecordSet={**RECORD, "ttl": -1}), "spec.dnsRecordSet.ttl"),
    Case("no provider", ISSUER, {"region": "ams3"}, "spec.provider"),
    Case("an empty provider", ISSUER, issuer(provider=""), "spec.provider"),
    Case(
        "a Secret without a name",
        ISSUER,
        issuer(credentialsSecretRef={"namespace": "flipop"}),
        "spec.credentialsSecretRef.name",
    ),
    Case(
        "a Secret of no namespace",
        ISSUER,
        issuer(credentialsSecretRef={"name": "token"}),
        "spec.credentialsSecretRef.namespace",
    ),
    Case(
        "a Secret by its path",
        ISSUER,
        issuer(credentialsSecretRef={"namespace": "flipop", "name": "../token"}),
        "spec.credentialsSecretRef.name",
    ),
    Case(
        "a Secret of every namespace",
        ISSUER,
        issuer(credentialsSecretRef={"namespace": "*", "name": "token"}),
        "spec.credentialsSecretRef.namespace",
    ),
    Case("fewer addresses than none", ISSUER, issuer(perNodeIPLimit=-1), "spec.perNodeIPLimit"),
    Case("too many addresses", ISSUER, issuer(perNodeIPLimit=1001), "spec.perNodeIPLimit"),
    Case("a number in quotes", ISSUER, issuer(perNodeIPLimit="2"), "spec.perNodeIPLimit"),
    Case("one port for a range", ISSUER, issuer(nodePortRange="30000"), "spec.nodePortRange"),
    Case("an open range", ISSUER, issuer(nodePortRange="30000-"), "spec.nodePortRange"),
    Case("a range with spaces", ISSUER, issuer(nodePortRange="1 - 2"), "spec.nodePortRange"),
    Case("a range backwards", ISSUER, issuer(nodePortRange="32767-30000"), "spec.nodePortRange"),
    Case("ports that there are not", ISSUER, issuer(nodePortRange="30000-65536"), "spec.nodePortRange"),
    Case("a number for a range", ISSUER, issuer(nodePortRange=30000), "spec.nodePortRange"),
    Case("yes for true", ISSUER, issuer(firewallPostAllow="yes"), "spec.firewallPostAllow"),
    Case("an unknown policy", ISSUER, issuer(routedIPReclaimPolicy="Recycle"), "spec.routedIPReclaimPolicy"),
    Case("an empty policy", ISSUER, issuer(routedIPReclaimPolicy=""), "spec.routedIPReclaimPolicy"),
    Case("a long firewall", ISSUER, issuer(routedIPFirewallName="f" * 256), "spec.routedIPFirewallName"),
    Case("an empty namespace", ISSUER, issuer(serviceNamespaces=["edge", ""]), "spec.serviceNamespaces[1]"),
    Case("a pattern of namespaces", ISSUER, issuer(serviceNamespaces=["edge-*"]), "spec.serviceNamespaces[0]"),
    Case("one namespace, not a list", ISSUER, issuer(serviceNamespaces="edge"), "spec.serviceNamespaces"),
    Case(
        "too many namespaces",
        ISSUER,
        issuer(serviceNamespaces=[f"n{number}" for number in range(1001)]),
        "spec.serviceNamespaces",
    ),
)
