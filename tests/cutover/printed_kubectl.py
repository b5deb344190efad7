"""A stand-in for kubectl where there is none, for the commands that a cutover prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.api import API


class Kubectl:
    """Commands of kubectl, sent over HTTP.

    Source: k8s.io/kubectl pkg/cmd/label, annotate, patch, apply, delete and drain.
    """

    def __init__(self, api: API, folder: Path) -> None:
        """Send to an API server; files of commands are in the folder."""
        self._api = api
        self._folder = folder

    def run(self, *arguments: str) -> None:
        """Run one command.

        Raises:
            AssertionError: It is refused, or unknown here.
        """
        verb, *rest = arguments
        words = [each for each in rest if not each.startswith("-")]
        options = {each for each in rest if each.startswith("-")}
        selector = rest[rest.index("-l") + 1] if "-l" in rest else ""
        match verb:
            case "label" | "annotate":
                kind, *names = [each for each in words if each != selector]
                changes = dict(_change(each) for each in names if "=" in each or each.endswith("-"))
                chosen = [each for each in names if "=" not in each and not each.endswith("-")]
                assert chosen or selector or "--all" in options, arguments
                assert names == [*chosen, *(each for each in names if each not in chosen)], "names come before changes"
                field = "labels" if verb == "label" else "annotations"
                for name in chosen or self._names(_kind(kind), selector):
                    self._patch(_kind(kind), name, {"metadata": {field: changes}})
            case "drain" | "uncordon":
                for name in self._names("Node", selector):
                    self._patch("Node", name, {"spec": {"unschedulable": True if verb == "drain" else None}})
                    if verb == "drain":
                        self._evict(name, force="--force" in options)
            case "patch":
                kind, name, kind_of_patch, text = words
                assert kind_of_patch == "merge", arguments
                self._patch(_kind(kind), name, json.loads(text))
            case "apply":
                for document in yaml.safe_load_all((self._folder / words[0]).read_text()):
                    assert self._api.apply(document).accepted, arguments
            case "delete":
                kind, name = words
                assert self._api.delete(_kind(kind), name).accepted, arguments
            case _:
                raise AssertionError(f"unknown command: {arguments}")

    def _names(self, kind: str, selector: str) -> list[str]:
        query = {"labelSelector": selector} if selector else {}
        return [each["metadata"]["name"] for each in self._api.list(kind, **query)]

    def _patch(self, kind: str, name: str, body: dict[str, Any]) -> None:
        answer = self._api.patch(kind, name, body=body)
        assert answer.accepted, answer.message

    def _evict(self, node: str, *, force: bool) -> None:
        for pod in self._api.list("Pod"):
            owners = pod["metadata"].get("ownerReferences", [])
            if pod["spec"].get("nodeName") != node or any(each["kind"] == "DaemonSet" for each in owners):
                continue
            assert owners or force, f"cannot delete {pod['metadata']['name']}, which declares no controller"
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            path = self._api.served_resource("Pod").path(namespace, name, "eviction")
            assert self._api.request("POST", path, {}, eviction).accepted


def _kind(word: str) -> str:
    """The kind that a command names: `nodes`, `gpuclusters.nvidia.com`."""
    plural = word.partition(".")[0]
    return next(kind for kind, resource in RESOURCES.items() if plural in (resource.plural, kind.lower()))


def _change(word: str) -> tuple[str, str | None]:
    """A changed label: its new value, or None to remove it."""
    key, equals, value = word.partition("=")
    return (key, value) if equals else (word.removesuffix("-"), None)
