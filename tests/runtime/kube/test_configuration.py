"""Kubeconfigs, service accounts and exec plugins: what configures the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flipop_core.errors import (
    ConfigError,
)
from flipop_core.runtime.kube import load_kube_configuration

from .answers import (
    SECRET,
    WriteKubeconfig,
    credential,
    exec_plugin,
)
from .scripted_server import ScriptedServer


def test_the_official_client_is_not_imported_with_the_module() -> None:
    program = "import sys; import flipop_core.runtime.kube as k; k.HTTPKubeAPI; sys.exit('kubernetes' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_named_kubeconfig(kubeconfig: WriteKubeconfig, server: ScriptedServer) -> None:
    configuration = load_kube_configuration(kubeconfig({"token": SECRET}))
    assert configuration.url == server.url
    assert configuration.namespace == "its-own"
    assert configuration.authorization == f"Bearer {SECRET}"
    assert SECRET not in repr(configuration)


def test_another_context(kubeconfig: WriteKubeconfig) -> None:
    assert load_kube_configuration(kubeconfig(), "second").namespace == "default"


def test_the_environment_names_a_kubeconfig(kubeconfig: WriteKubeconfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", f"/no/such/file:{kubeconfig({'token': SECRET})}")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert load_kube_configuration().authorization == f"Bearer {SECRET}"


def test_the_first_file_wins(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text(
        yaml.safe_dump({"current-context": "second", "users": [{"name": "u", "user": {"token": "of-first"}}]})
    )
    configuration = load_kube_configuration(f"{first}:{kubeconfig({'token': 'of-second'})}")
    assert (configuration.namespace, configuration.authorization) == ("default", "Bearer of-first")


def test_the_home_directory_has_a_kubeconfig(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    Path(kubeconfig({"token": SECRET})).rename(tmp_path / ".kube" / "config")
    assert load_kube_configuration().authorization == f"Bearer {SECRET}"


def test_no_kubeconfig_anywhere() -> None:
    with pytest.raises(ConfigError, match=r"kubeconfig ~/\.kube/config: .*--kubeconfig"):
        load_kube_configuration()


def test_a_context_that_is_not_there(kubeconfig: WriteKubeconfig) -> None:
    with pytest.raises(ConfigError, match="no context 'third'"):
        load_kube_configuration(kubeconfig(), "third")


def test_no_current_context(kubeconfig: WriteKubeconfig) -> None:
    path = Path(kubeconfig())
    path.write_text(path.read_text().replace("current-context: first", ""))
    with pytest.raises(ConfigError, match="--context"):
        load_kube_configuration(str(path))
    assert load_kube_configuration(str(path), "second").namespace == "default"


@pytest.mark.parametrize("text", ["", "[", "- a", "contexts: 3\ncurrent-context: x\n"])
def test_a_malformed_kubeconfig(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        load_kube_configuration(str(path))


def test_the_service_account_of_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in (("token", "pod-token\n"), ("ca.crt", "certificates"), ("namespace", "flipop-system")):
        (tmp_path / name).write_text(content)
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr("flipop_core.runtime.kube._SERVICE_ACCOUNT_NAMESPACE", tmp_path / "namespace")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    configuration = load_kube_configuration()
    assert configuration.url == "https://[fd00::1]:443"
    assert configuration.namespace == "flipop-system"
    assert configuration.authorization.lower() == "bearer pod-token"
    assert configuration.source == "in-cluster"


def test_a_pod_without_a_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("kubernetes.config.incluster_config.SERVICE_TOKEN_FILENAME", "/no/such/token")
    with pytest.raises(ConfigError, match="service account"):
        load_kube_configuration()


def test_an_exec_plugin_gives_a_token(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    path = kubeconfig(exec_plugin(tmp_path, credential(token="of-plugin")))
    assert load_kube_configuration(path).authorization == "Bearer of-plugin"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys; sys.exit('please log in')", "please log in"),
        ("print('no json')", "exec"),
        (credential(), "token"),
        (credential(clientCertificateData="x"), "clientKeyData"),
    ],
)
def test_an_exec_plugin_that_gives_nothing(
    kubeconfig: WriteKubeconfig, tmp_path: Path, script: str, reason: str
) -> None:
    path = kubeconfig(exec_plugin(tmp_path, script))
    with pytest.raises(ConfigError, match=f"no credential for user 'u': .*{reason}"):
        load_kube_configuration(path)


def test_a_missing_exec_plugin(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    user = exec_plugin(tmp_path, "")
    user["exec"]["command"] = "no-such-plugin"
    with pytest.raises(ConfigError, match="no-such-plugin"):
        load_kube_configuration(kubeconfig(user))


def test_an_empty_token_file(kubeconfig: WriteKubeconfig, tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    with pytest.raises(ConfigError, match="no credential"):
        load_kube_configuration(kubeconfig({"tokenFile": str(tmp_path / "token")}))


@pytest.mark.parametrize("context", ["first", "nobody"])
def test_nobody_may_be_wanted(kubeconfig: WriteKubeconfig, context: str) -> None:
    assert load_kube_configuration(kubeconfig({}), context).authorization == ""
