"""A small client of the Kubernetes API for tests: any kind of object, as plain dictionaries, as the administrator."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import urllib3
import yaml

from .certificates import Certificates

_T = TypeVar("_T")

#: An object of the Kubernetes API as it stands in JSON.
Document = dict[str, Any]

FIELD_MANAGER = "flipop-tests"

APPLY_PATCH = "application/apply-patch+yaml"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The API server refused a request; `status` is the HTTP status, `body` the answer (a ``Status``, as a rule)."""

    def __init__(self, method: str, path: str, status: int, body: Any) -> None:
        message = body.get("message") if isinstance(body, Mapping) else body
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status
        self.body = body


@dataclass(frozen=True)
class Resource:
    """How the API server serves a kind."""

    plural: str
    namespaced: bool


def wait_for(
    predicate: Callable[[], _T | None],
    timeout_seconds: float = 30.0,
    message: str | Callable[[], str] = "the condition",
    interval_seconds: float = 0.05,
) -> _T:
    """Call `predicate` until it returns something true, and return that.

    Raises `TimeoutError` with `message` after `timeout_seconds`. What `predicate` raises is raised at once.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        if result := predicate():
            return result
        if time.monotonic() >= deadline:
            text = message if isinstance(message, str) else message()
            raise TimeoutError(f"waited {timeout_seconds:g} s for {text}")
        time.sleep(interval_seconds)


class KubernetesApi:
    """Requests to one API server; safe to use from several threads."""

    def __init__(self) -> None:
        self._url = ""
        self._admin_pool = urllib3.PoolManager()
        self._token_pool = urllib3.PoolManager()
        self._resources: dict[tuple[str, str], Resource] = {}

    @property
    def url(self) -> str:
        """Where the API server listens, such as ``https://127.0.0.1:20443``."""
        return self._url

    def _connect(self, url: str, certificates: Certificates) -> None:
        """Send requests to `url` from here on."""
        self._disconnect()
        self._url = url
        self._admin_pool = urllib3.PoolManager(
            maxsize=8,
            ca_certs=str(certificates.ca_file),
            cert_file=str(certificates.admin.certificate_file),
            key_file=str(certificates.admin.key_file),
        )
        self._token_pool = urllib3.PoolManager(maxsize=8, ca_certs=str(certificates.ca_file))

    def _disconnect(self) -> None:
        self._admin_pool.clear()
        self._token_pool.clear()
        self._resources.clear()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        *,
        token: str | None = None,
        timeout_seconds: float = 30.0,
    ) -> tuple[int, Any]:
        """Send one request, as the administrator or as the bearer of `token`; return the status and the decoded body.

        A body that is not JSON comes back as text. Nothing is retried; `urllib3.exceptions.HTTPError` is raised
        when no answer came.
        """
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        response = (self._admin_pool if token is None else self._token_pool).request(
            method,
            self._url + path,
            body=None if body is None else json.dumps(body).encode(),
            headers=headers,
            retries=False,
            timeout=urllib3.Timeout(connect=min(5.0, timeout_seconds), read=timeout_seconds),
        )
        try:
            return response.status, json.loads(response.data)
        except ValueError:
            return response.status, response.data.decode(errors="replace")

    def path_for(
        self,
        kind: str,
        name: str | None = None,
        namespace: str | None = None,
        *,
        api_version: str = "v1",
        subresource: str | None = None,
    ) -> str:
        """Return the path of an object, or of a kind's collection, as the API server's discovery gives it.

        Raises `LookupError` when the API server does not serve the kind.
        """
        resource = self._resource(api_version, kind)
        if resource.namespaced and name is not None and namespace is None:
            raise ValueError(f"{kind} {name} needs a namespace")
        parts = [_group_path(api_version)]
        if resource.namespaced and namespace is not None:
            parts.append(f"namespaces/{namespace}")
        parts += [part for part in (resource.plural, name, subresource) if part is not None]
        return "/".join(parts)

    def get(self, kind: str, name: str, namespace: str | None = None, *, api_version: str = "v1") -> Document | None:
        """Return an object, or None when there is none of that name."""
        path = self.path_for(kind, name, namespace, api_version=api_version)
        status, answer = self.request("GET", path)
        if status == 404:
            return None
        return _checked("GET", path, status, answer)

    def list_objects(
        self, kind: str, namespace: str | None = None, *, api_version: str = "v1", label_selector: str | None = None
    ) -> list[Document]:
        """Return the objects of a kind, of all namespaces unless one is given."""
        path = self.path_for(kind, namespace=namespace, api_version=api_version) + _query(labelSelector=label_selector)
        items: list[Document] = self._expect("GET", path)["items"]
        return items

    def create(self, document: Mapping[str, Any]) -> Document:
        """Create an object, in ``default`` unless it names a namespace; raises `ApiError` (409) when it exists."""
        namespace = document.get("metadata", {}).get("namespace", "default")
        path = self.path_for(document["kind"], namespace=namespace, api_version=document["apiVersion"])
        return self._expect("POST", path, document)

    def patch(
        self,
        kind: str,
        name: str,
        body: Mapping[str, Any],
        namespace: str | None = None,
        *,
        api_version: str = "v1",
        subresource: str | None = None,
        content_type: str = MERGE_PATCH,
    ) -> Document:
        """Patch an object, or its `subresource`."""
        path = self.path_for(kind, name, namespace, api_version=api_version, subresource=subresource)
        return self._expect("PATCH", path, body, content_type)

    def delete(
        self,
        kind: str,
        name: str,
        namespace: str | None = None,
        *,
        api_version: str = "v1",
        grace_period_seconds: int | None = 0,
    ) -> None:
        """Delete an object if it is there.

        With no grace a pod is gone at once. With some it stays, being deleted, since no kubelet runs to end it.
        """
        path = self.path_for(kind, name, namespace, api_version=api_version)
        status, answer = self.request("DELETE", path, _delete_options(grace_period_seconds))
        if status != 404:
            _checked("DELETE", path, status, answer)

    def delete_all(
        self, kind: str, namespace: str | None = None, *, api_version: str = "v1", label_selector: str | None = None
    ) -> None:
        """Delete the objects of a kind without grace; a namespaced kind needs `namespace`."""
        path = self.path_for(kind, namespace=namespace, api_version=api_version) + _query(labelSelector=label_selector)
        self._expect("DELETE", path, _delete_options(0))

    def apply(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]],
        timeout_seconds: float = 20.0,
    ) -> list[Document]:
        """Create or update objects in order (server-side apply, taking over conflicting fields); return them.

        `source` is the path of a YAML file, or of a directory of them, or one or several documents. Without a
        namespace of its own an object goes to ``default``. A kind that is not served yet is waited for, and so is
        each CustomResourceDefinition's endpoint.
        """
        applied = []
        for document in _documents(source):
            applied.append(self._apply(document, timeout_seconds))
            if document["kind"] == "CustomResourceDefinition":
                self._wait_until_served(document, timeout_seconds)
        return applied

    def apply_yaml(self, text: str, timeout_seconds: float = 20.0) -> list[Document]:
        """Do as `apply` does with the documents in `text`."""
        return self.apply(_flattened(yaml.safe_load_all(text)), timeout_seconds)

    def _expect(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Document:
        status, answer = self.request(method, path, body, content_type)
        return _checked(method, path, status, answer)

    def _resource(self, api_version: str, kind: str) -> Resource:
        known = self._resources.get((api_version, kind))
        if known is not None:
            return known
        status, answer = self.request("GET", _group_path(api_version))
        for entry in answer["resources"] if status == 200 else ():
            if "/" not in entry["name"]:
                self._resources[api_version, entry["kind"]] = Resource(entry["name"], entry["namespaced"])
        if (api_version, kind) not in self._resources:
            raise LookupError(f"the API server serves no {kind} in {api_version}")
        return self._resources[api_version, kind]

    def _apply(self, document: Mapping[str, Any], timeout_seconds: float) -> Document:
        metadata = document["metadata"]
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                path = self._apply_path(document["apiVersion"], document["kind"], metadata)
                return self._expect("PATCH", path, document, APPLY_PATCH)
            except (LookupError, ApiError) as error:
                if time.monotonic() >= deadline or not _passes(error):
                    raise
            time.sleep(0.1)

    def _apply_path(self, api_version: str, kind: str, metadata: Mapping[str, Any]) -> str:
        namespace = metadata.get("namespace", "default")
        path = self.path_for(kind, metadata["name"], namespace, api_version=api_version)
        return path + _query(fieldManager=FIELD_MANAGER, force="true")

    def _wait_until_served(self, definition: Mapping[str, Any], timeout_seconds: float) -> None:
        spec = definition["spec"]
        versions = [f"{spec['group']}/{version['name']}" for version in spec["versions"] if version["served"]]

        def served() -> bool:
            # An endpoint answers 404 for a while although its definition is established.
            return all(
                self.request("GET", _group_path(version))[0] == 200
                and self.request("GET", f"{_group_path(version)}/{spec['names']['plural']}?limit=1")[0] == 200
                for version in versions
            )

        wait_for(served, timeout_seconds, f"{definition['metadata']['name']} to be served")


def _group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _query(**parameters: str | None) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return "?" + urlencode(given) if given else ""


def _delete_options(grace_period_seconds: int | None) -> Document:
    options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    return options


def _checked(method: str, path: str, status: int, answer: Any) -> Document:
    if not 200 <= status < 300:
        raise ApiError(method, path, status, answer)
    document: Document = answer
    return document


def _passes(error: LookupError | ApiError) -> bool:
    """Whether a refused apply is worth another try: the kind is not served yet, or the API server is starting."""
    if isinstance(error, LookupError):
        return True
    if error.status == 404:
        details = error.body.get("details", {}) if isinstance(error.body, Mapping) else {}
        return bool(details.get("kind") != "namespaces")
    return error.status in {429, 503}


def _documents(
    source: str | os.PathLike[str] | Mapping[str, Any] | Iterable[Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    if isinstance(source, Mapping):
        yield from _flattened([source])
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        files = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
        for file in files:
            yield from _flattened(yaml.safe_load_all(file.read_text()))
    else:
        yield from _flattened(source)


def _flattened(documents: Iterable[Mapping[str, Any] | None]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        if not document:  # an empty YAML document, such as one of comments
            continue
        if document["kind"] == "List":
            yield from document["items"]
        else:
            yield document
