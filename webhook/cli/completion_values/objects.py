"""Namespaces, and objects that can be explained, that begin with what is written so far."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of
from policies.nvidia.pod_conditions import REQUESTS_DEVICES
from webhook.cli.completion_values.items import items_of, option_value
from webhook.cli.folders import SUFFIXES
from webhook.cluster.lookups import find_resource
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from policies.kubernetes.objects import Object
    from webhook.cli.completion_values.items import Items
    from webhook.cluster.resources import Resource

__all__ = ["namespaces", "objects"]


def namespaces(ctx: click.Context, incomplete: str) -> Items:
    """The namespaces in the files of --cluster, else those of the cluster."""
    found = _objects(ctx, RESOURCES["Namespace"], "")
    return items_of(sorted(name for each in found if (name := name_of(each)).startswith(incomplete)))


def objects(ctx: click.Context, incomplete: str) -> Items:
    """Objects of the namespace as `KIND/NAME`; pods with devices and manifests if no kind is written yet."""
    word, slash, _ = incomplete.partition("/")
    if slash:
        return items_of(_names(ctx, word, incomplete) if word and not Path(word).is_dir() else [])
    pods = _names(ctx, "pod", incomplete) if "pod/".startswith(word) else []
    manifests = sorted(each.name for each in Path().iterdir() if each.suffix in SUFFIXES) if pods else []
    return items_of([*pods, *(name for name in manifests if name.startswith(incomplete))])


def _names(ctx: click.Context, word: str, incomplete: str) -> list[str]:
    """The objects of a kind in the namespace, as `KIND/NAME`."""
    resource = find_resource(word)
    namespace = option_value(ctx, "namespace") or ""
    if not namespace and not option_value(ctx, "cluster"):
        from webhook.cluster.contexts import context_namespace

        namespace = context_namespace(option_value(ctx, "kubeconfig"), option_value(ctx, "context"))
    found = _objects(ctx, resource, namespace or DEFAULT_NAMESPACE)
    if resource.kind == "Pod":
        found = filter(REQUESTS_DEVICES.holds, found)
    return sorted(name for each in found if (name := f"{word}/{name_of(each)}").startswith(incomplete))


def _objects(ctx: click.Context, resource: Resource, namespace: str) -> Iterable[Object]:
    """The objects of a kind, of --cluster or else of the cluster; of all namespaces for an empty one."""
    if paths := option_value(ctx, "cluster"):
        from webhook.cli.completion_values.file_objects import file_objects

        return file_objects(paths, resource.kind, namespace)
    from webhook.cli.completion_values.live_objects import live_objects

    return live_objects(option_value(ctx, "kubeconfig"), option_value(ctx, "context"), resource.path(namespace))
