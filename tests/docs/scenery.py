"""What a page supposes to be there before its first command, and how it is cleared away after the last one."""

from __future__ import annotations

import yaml

from tests.controlplane.cluster import ControlPlane
from tests.deploy.charts import earlier_deployment
from tests.e2e.aws import WEST, AWSWorld
from tests.e2e.routed import Routed
from tests.e2e.world import ANNOTATION, Machine, World

from .session import Session

NODE_POOL = {"doks.digitalocean.com/node-pool": "work"}
EXISTING = ("192.0.2.10", "192.0.2.11")
"""Addresses of the account that pages name."""

_NAMESPACES = ("flipop", "ingress")
_SERVICE = "ingress-nginx-controller"
_LEFT = (
    ("apps/v1", "Deployment"),
    ("policy/v1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("coordination.k8s.io/v1", "Lease"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("events.k8s.io/v1", "Event"),
    ("v1", "ConfigMap"),
    ("v1", "Pod"),
    ("v1", "Secret"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
)

GROUP = "monitoring.coreos.com"
_TOKENS = " ".join(f'--from-literal={name}="${name}"' for name in ("DIGITALOCEAN_ACCESS_TOKEN", "CLOUDFLARE_TOKEN"))
POOL = """\
apiVersion: flipop.digitalocean.com/v1alpha1
kind: FloatingIPPool
metadata:
  name: ingress
  namespace: flipop
spec:
  provider: digitalocean
  region: nyc3
  desiredIPs: 2
  match:
    nodeLabel: doks.digitalocean.com/node-pool=work
"""

ORIGINAL = earlier_deployment("digitalocean/original:v0.0.1")
"""A Deployment as digitalocean/flipop's manifests have it, as far as matters here."""


def droplets(world: World) -> None:
    """Make three nodes, the addresses that pages name, and the zone ``example.com`` at both providers."""
    for number in (1, 2, 3):
        name = f"work-{number}"
        droplet = world.cloud.account.add_droplet(name, "nyc3")
        world.bare_node(name, f"digitalocean://{droplet}", NODE_POOL)
    for address in EXISTING:
        world.cloud.account.add_address(ip=address)
    world.cloud.domains.add("example.com")
    world.cloudflare.account.add_zone("example.com")


def instances(world: AWSWorld) -> None:
    """Make two nodes on EC2 instances, and the hosted zone ``example.com``."""
    for number in (1, 2):
        instance = world.aws.account.add_instance(zone=f"{WEST}a")
        world.bare_node(f"ip-10-0-0-{number}", instance.provider_id, {"eks.amazonaws.com/nodegroup": "ingress"})
    world.aws.account.add_zone("example.com")


def installed(session: Session) -> None:
    """Install the chart, and wait for a pool of two addresses."""
    for namespace in _NAMESPACES:
        session.succeed(f"kubectl create namespace {namespace}")
    session.succeed(f"kubectl create secret generic flipop -n flipop {_TOKENS}")
    session.succeed("helm install flipop ./deploy/chart -n flipop --set credentials.existingSecret=flipop")
    pool(session)


def pool(session: Session) -> None:
    """Let the pool ``ingress`` be as it was installed, and all be well."""
    session.write("base.yaml", POOL)
    session.succeed("kubectl delete fip,nodedns,rip,ripissuer --all --all-namespaces")
    session.succeed("kubectl apply -f base.yaml")
    session.succeed("kubectl wait fip/ingress -n flipop --for=condition=Ready --timeout=30s")


def service(session: Session) -> None:
    """Make the service of an ingress with an endpoint on a node that holds no address, and a firewall."""
    world = session.world
    pool(session)
    session.succeed("kubectl delete fip ingress -n flipop")
    routed = Routed(world)
    if not [each for each in world.cloud.firewalls.all() if each.name == "edge"]:
        world.cloud.firewalls.add("edge")
        routed.service(name=_SERVICE, namespace="ingress")
    name = f"work-{10 + len(world.cluster.list_objects('Node'))}"
    machine = Machine(name, world.cloud.account.add_droplet(name, "nyc3"))
    world.bare_node(name, machine.provider_id, {})
    routed.endpoints(machine, name=_SERVICE, namespace="ingress")


def prometheus_operator(cluster: ControlPlane) -> None:
    """Let the kinds of the Prometheus Operator that the chart makes be served, whatever is in them."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for kind in ("ServiceMonitor", "PrometheusRule"):
        plural = f"{kind.lower()}s"
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": free}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
        annotations = {"api-approved.kubernetes.io": "unapproved, of a test"}
        cluster.apply(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{GROUP}", "annotations": annotations},
                "spec": {
                    "group": "monitoring.coreos.com",
                    "scope": "Namespaced",
                    "names": names,
                    "versions": [version],
                },
            }
        )


def original(session: Session) -> None:
    """Make what an install of digitalocean/flipop has left, a pool of an existing address included."""
    world = session.world
    session.succeed("kubectl create namespace flipop")
    session.succeed(f"kubectl create secret generic flipop -n flipop {_TOKENS}")
    session.succeed("kubectl apply -f deploy/crds.yaml")
    world.cluster.create(ORIGINAL)
    for number, address in enumerate(EXISTING, 1):
        node = world.cluster.get("Node", f"work-{number}")
        assert node is not None
        world.cloud.account.move(address, int(node["spec"]["providerID"].rpartition("/")[2]))
        world.cluster.patch("Node", f"work-{number}", {"metadata": {"annotations": {ANNOTATION: address}}})
    session.write("base.yaml", POOL.replace("  match:", f"  ips: [{', '.join(EXISTING)}]\n  match:"))
    session.succeed("kubectl apply -f base.yaml")
    (session.directory / "original").mkdir()
    session.write("original/flipop.yaml", yaml.safe_dump(ORIGINAL))


def clear(cluster: ControlPlane) -> None:
    """Remove what pages have left in their namespaces, and these; nothing runs that would do so."""
    for namespace in _NAMESPACES:
        if cluster.get("Namespace", namespace) is None:
            continue
        for api_version, kind in _LEFT:
            cluster.delete_all(kind, namespace, api_version=api_version)
        cluster.delete("Namespace", namespace, grace_period_seconds=None)
        path = cluster.path_for("Namespace", namespace) + "/finalize"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}, "spec": {"finalizers": []}}
        status, answer = cluster.request("PUT", path, body)
        assert status == 200, answer
    for kind in ("ClusterRole", "ClusterRoleBinding"):
        cluster.delete_all(
            kind, api_version="rbac.authorization.k8s.io/v1", label_selector="app.kubernetes.io/name=flipop"
        )
