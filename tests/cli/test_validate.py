"""`flipop validate`: what it finds in a manifest, and on which line."""

from __future__ import annotations

from pathlib import Path

import pytest

from .commandline import invoke

HEAD = "apiVersion: flipop.digitalocean.com/v1alpha1\n"
GOOD_POOL = HEAD + "kind: FloatingIPPool\nmetadata: {name: web, namespace: edge}\nspec:\n  provider: digitalocean\n"


def check(tmp_path: Path, text: str) -> tuple[int, list[str], str]:
    file = tmp_path / "manifest.yaml"
    file.write_text(text, encoding="utf-8")
    result = invoke("validate", str(file))
    lines = [line.removeprefix(f"{file}:") for line in result.stdout.splitlines()]
    return result.exit_code, lines, result.stderr


def test_a_good_one(tmp_path: Path) -> None:
    text = GOOD_POOL + "  desiredIPs: 2\n  dnsRecordSet: {zone: example.com, recordName: www}\n"
    assert check(tmp_path, text) == (0, [], "1 checked, 0 problems\n")


@pytest.mark.parametrize(
    ("kind", "spec", "line", "said"),
    [
        (
            "FloatingIPPool",
            "  desiredIPs: 1\n  matsch:\n    nodeLabel: a=b\n",
            7,
            "spec.matsch: there is no such field",
        ),
        ("FloatingIPPool", "  desiredIPs: 1\n  match:\n    podLabel: a in\n", 8, "spec.match.podLabel: 'a in'"),
        ("FloatingIPPool", "  ips:\n  - 192.0.2.1\n  - 192.0.2\n", 8, "spec.ips[1]: '192.0.2'"),
        ("FloatingIPPool", "  desiredIPs: many\n", 6, "spec.desiredIPs"),
        ("FloatingIPPool", "  region: ams3\n", 4, "spec.desiredIPs"),
        ("FloatingIPPool", "  desiredIPs: 1\n  ipSelector: {tags: {a: b}}\n", 7, "has no tags on addresses"),
        ("FloatingIPPool", "  desiredIPs: 1\n  dnsRecordSet: {zone: a.b, recordName: c, ttl: 5}\n", 7, "allows 30 s"),
        ("NodeDNSRecordSet", "  dnsRecordSet:\n    zone: example.com\n    recordName: a b\n", 8, "recordName"),
        ("RoutedIP", "  match: {}\n  serviceRef: {name: web}\n", 4, "spec.issuerRef: None: it is required"),
        ("RoutedIPIssuer", "  nodePortRange: 5-4\n", 6, "spec.nodePortRange: '5-4'"),
    ],
)
def test_what_is_wrong(tmp_path: Path, kind: str, spec: str, line: int, said: str) -> None:
    text = HEAD + f"kind: {kind}\nmetadata: {{name: web}}\nspec:\n"
    provider = "" if kind == "RoutedIP" else "  provider: digitalocean\n"
    code, found, summary = check(tmp_path, text + provider + spec)
    assert (code, len(found), summary) == (1, 1, "1 checked, 1 problem\n")
    assert found[0].startswith(f"{line}: {kind} web: ")
    assert said in found[0]


@pytest.mark.parametrize("provider", ["nowhere", "cloudflare"])
def test_a_provider_that_is_not_there(tmp_path: Path, provider: str) -> None:
    text = GOOD_POOL.replace("digitalocean\n", f"{provider}\n")
    _, (found,), _ = check(tmp_path, text + "  desiredIPs: 1\n")
    assert found.startswith(f"5: FloatingIPPool edge/web: spec.provider: '{provider}': no installed plugin provides")


def test_lists_and_other_objects(tmp_path: Path) -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"
        "- apiVersion: flipop.digitalocean.com/v1alpha1\n  kind: FloatingIPPool\n  metadata: {name: b}\n"
        "  spec: {provider: digitalocean}\n---\n---\nkind: Pod\n"
    )
    code, found, summary = check(tmp_path, text)
    assert (code, len(found)) == (1, 1)
    assert found[0].startswith("8: FloatingIPPool b: spec.desiredIPs")
    assert summary == "1 checked, 1 problem, 2 other objects passed over\n"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (HEAD + "kind: FloatingIPPool\nspec: {provider: digitalocean}\n", 1, "metadata.name: it is required"),
        (HEAD + "kind: FloatingIPPool\nmetadata: {name: a}\n", 1, "spec: it is required"),
        (HEAD + "kind: FloatingIPPool\nmetadata: {name: a}\nspec: [1]\n", 4, "spec: it is required"),
    ],
)
def test_no_object_at_all(tmp_path: Path, text: str, line: int, said: str) -> None:
    code, (found,), _ = check(tmp_path, text)
    assert code == 1
    assert found.startswith(f"{line}: FloatingIPPool")
    assert found.endswith(said)


def test_no_yaml(tmp_path: Path) -> None:
    code, found, said = check(tmp_path, GOOD_POOL + "---\na: b: c\n")
    assert code == 1
    assert found[-1] == "7: no YAML: mapping values are not allowed here"
    assert said == "1 checked, 2 problems\n"


def test_control_characters_reach_no_terminal(tmp_path: Path) -> None:
    _, (found,), _ = check(tmp_path, GOOD_POOL + '  desiredIPs: 1\n  "\\e[31m": 1\n')
    assert "\x1b" not in found


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    good = tmp_path / "good.yaml"
    good.write_text(GOOD_POOL + "  desiredIPs: 2\n", encoding="utf-8")
    result = invoke("validate", str(tmp_path / "missing.yaml"), str(good))
    assert result.exit_code == 2
    first, last = result.stderr.splitlines()
    assert first.endswith("missing.yaml: No such file or directory: name a file of manifests")
    assert last == "1 checked, 0 problems"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (
            HEAD + "kind: FloatingIPPol\nmetadata: {name: a}\n",
            2,
            "kind: 'FloatingIPPol': write one of FloatingIPPool, ",
        ),
        (HEAD + "kind: [FloatingIPPool]\n", 2, "kind: ['FloatingIPPool']: write one of FloatingIPPool, "),
        (
            HEAD.replace("v1alpha1", "v1") + "kind: FloatingIPPool\n",
            1,
            "apiVersion: 'flipop.digitalocean.com/v1': write",
        ),
        (GOOD_POOL + "  desiredIPs: 1\n  provider: aws\n", 7, "provider: it is there twice: remove one"),
        (GOOD_POOL + "  desiredIPs: 1\n  match:\n    podLabel: a\n    podLabel: b\n", 9, "podLabel: it is there twice"),
    ],
)
def test_what_the_api_server_would_refuse(tmp_path: Path, text: str, line: int, said: str) -> None:
    """A wrong kind or version is no other object, and passed over."""
    code, (found,), summary = check(tmp_path, text)
    assert (code, summary) == (1, "1 checked, 1 problem\n")
    assert found.startswith(f"{line}: ")
    assert said in found


def test_all_that_is_wrong_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        HEAD + "kind: FloatingIPPool\nmetadata: {name: a}\nspec:\n  provider: nowhere\n  desiredIPs: -1\n"
        "  match:\n    nodeLabel: a in\n  typo: 1\n  ips: [x]\n"
        "---\n" + GOOD_POOL + "  desiredIPs: 1\n  match: {podLabel: '='}\n"
    )
    code, found, summary = check(tmp_path, text)
    assert [line.partition(": ")[0] for line in found] == ["5", "6", "8", "9", "10", "18"]
    assert (code, summary) == (1, "2 checked, 6 problems\n")


def test_what_is_left_out_to_check_the_rest_is_not_missed(tmp_path: Path) -> None:
    spec = "  dnsRecordSet:\n    provider: digitalocean\n    zone: ''\n    recordName: www\n    ttl: many\n"
    _, found, _ = check(tmp_path, HEAD + "kind: NodeDNSRecordSet\nmetadata: {name: a}\nspec:\n" + spec)
    assert [line.partition(": ")[0] for line in found] == ["7", "9"]


def test_a_list_of_one_kind(tmp_path: Path) -> None:
    """Its items need not name their kind; `kubectl get --raw` prints such lists."""
    text = HEAD + "kind: FloatingIPPoolList\nitems:\n- metadata: {name: a}\n  spec:\n    provider: nowhere\n"
    code, (found,), summary = check(tmp_path, text + "    desiredIPs: 1\n")
    assert (code, summary) == (1, "1 checked, 1 problem\n")
    assert found.startswith("6: FloatingIPPool a: spec.provider: 'nowhere'")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "kind: FloatingIPPool\nmetadata: {name: a}\nspec: &s\n  provider: digitalocean\n  match: *s\n", 4),
        (HEAD + f"kind: FloatingIPPool\nspec: {'[' * 5000}{']' * 5000}\n", 1),
    ],
)
def test_what_has_no_end(tmp_path: Path, text: str, line: int) -> None:
    code, found, _ = check(tmp_path, text)
    assert code == 1
    assert [each for each in found if each.startswith(f"{line}: ") and "nested too deeply" in each]
