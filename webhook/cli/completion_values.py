"""The values that shells offer: rules, kinds, contexts, namespaces, and objects that can be explained.

Each function returns the values that begin with what is written so far.
"""

from __future__ import annotations

import os
import re
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.shell_completion import CompletionItem

from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of
from policies.view import Unknown
from webhook.cli.folders import SUFFIXES
from webhook.cli.lazy_modules import lazy_module

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import click

    from policies.kubernetes.objects import Object
    from policies.view import ClusterView
    from webhook.cluster.resources import Resource

__all__ = ["contexts", "kinds", "namespaces", "objects", "products", "rules"]

Items = list[CompletionItem[Any]]

_SECONDS = 1.5
"""Time limit for a cluster to answer; a user who presses TAB waits."""
_TITLES = "rule_titles.txt"
"""The rules, a line for each; importing all of them takes a second."""
_MOST = 500
"""The most objects that are listed."""
_BRAND = "NVIDIA-"
_HARMLESS = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+=:,./-]*")
"""Values that no shell reads as anything else than a word. Shells insert values as they are, and files have any names."""
_LARGEST = 1_000_000
"""The most bytes of files that are read; larger ones take longer than a second."""


def rules(_ctx: click.Context, incomplete: str) -> Items:
    """The ids of rules, with their titles."""
    lines = (files("policies") / _TITLES).read_text(encoding="utf-8").splitlines()
    found = (line.partition(" ") for line in lines if line.startswith(incomplete.upper()))
    return [CompletionItem(rule_id, help=title) for rule_id, _, title in found]


def kinds(_ctx: click.Context, incomplete: str) -> Items:
    """The kinds that have rules."""
    return _items(kind for kind in lazy_module("rules").ruled_kinds() if kind.lower().startswith(incomplete.lower()))


def products(_ctx: click.Context, incomplete: str) -> Items:
    """The known products, as labels have them and without `NVIDIA-`."""
    names = {
        name for label in lazy_module("known products").KNOWN_PRODUCTS for name in (label, label.removeprefix(_BRAND))
    }
    typed = incomplete.lower()
    found = sorted(name for name in names if name.lower().startswith(typed))
    return _items(
        found if typed.startswith(_BRAND[0].lower()) else [name for name in found if not name.startswith(_BRAND)]
    )


def contexts(ctx: click.Context, incomplete: str) -> Items:
    """The contexts of the kubeconfig."""
    names = lazy_module("contexts").context_names(_option(ctx, "kubeconfig"))
    return _items(name for name in names if name.startswith(incomplete))


def namespaces(ctx: click.Context, incomplete: str) -> Items:
    """The namespaces in the files of --cluster, else those of the cluster."""
    found = _objects(ctx, lazy_module("resources").RESOURCES["Namespace"], "")
    return _items(sorted(name for each in found if (name := name_of(each)).startswith(incomplete)))


def objects(ctx: click.Context, incomplete: str) -> Items:
    """Objects of the namespace as `KIND/NAME`; pods with devices and manifests if no kind is written yet."""
    word, slash, _ = incomplete.partition("/")
    if slash:
        return _items(_names(ctx, word, incomplete) if word and not Path(word).is_dir() else [])
    pods = _names(ctx, "pod", incomplete) if "pod/".startswith(word) else []
    manifests = sorted(each.name for each in Path().iterdir() if each.suffix in SUFFIXES) if pods else []
    return _items([*pods, *(name for name in manifests if name.startswith(incomplete))])


def _names(ctx: click.Context, word: str, incomplete: str) -> list[str]:
    """The objects of a kind in the namespace, as `KIND/NAME`."""
    resource = lazy_module("lookups").find_resource(word)
    namespace = _option(ctx, "namespace") or ""
    if not namespace and not _option(ctx, "cluster"):
        context = _option(ctx, "kubeconfig"), _option(ctx, "context")
        namespace = lazy_module("contexts").context_namespace(*context)
    found = _objects(ctx, resource, namespace or DEFAULT_NAMESPACE)
    if resource.kind == "Pod":
        found = filter(lazy_module("pod conditions").REQUESTS_DEVICES.holds, found)
    return sorted(name for each in found if (name := f"{word}/{name_of(each)}").startswith(incomplete))


def _objects(ctx: click.Context, resource: Resource, namespace: str) -> Iterable[Object]:
    """The objects of a kind, of --cluster or else of the cluster; of all namespaces for an empty one."""
    if paths := _option(ctx, "cluster"):
        listed = _view_of(paths).list(resource.kind, namespace)
        return () if isinstance(listed, Unknown) else listed
    return _live_objects(_option(ctx, "kubeconfig"), _option(ctx, "context"), resource.path(namespace))


def _view_of(paths: Sequence[str]) -> ClusterView:
    """The objects of files and folders; none if these are too large to read while a user waits."""
    each = [*chain.from_iterable([Path(path), *Path(path).rglob("*")] for path in paths)]
    is_small = sum(path.stat().st_size for path in each if path.is_file()) <= _LARGEST
    facts = lazy_module("manifest reader").ManifestReader().cluster(paths) if is_small else ()
    view: ClusterView = lazy_module("manifests").ManifestsView(facts)
    return view


def _live_objects(kubeconfig: str | None, context: str | None, path: str) -> list[Object]:
    """The objects of a path, read by kubectl.

    Our own client would import kubernetes-asyncio to read the kubeconfig.

    Raises:
        OSError: kubectl is not installed.
        subprocess.SubprocessError: kubectl failed or did not answer in time.
    """
    import json  # noqa: PLC0415 - only needed for a running cluster
    import subprocess  # noqa: PLC0415 - as above

    command = ["kubectl", "get", "--raw", f"{path}?limit={_MOST}", *(["--context", context] if context else [])]
    environ = {**os.environ, **({"KUBECONFIG": kubeconfig} if kubeconfig else {})}
    # Without input, a credential plugin cannot wait for a password.
    done = subprocess.run(  # noqa: S603 - no shell reads the arguments
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True
    )
    listed: list[Object] = json.loads(done.stdout)["items"]
    return listed


def _option(ctx: click.Context, name: str) -> Any:
    """The value of an option of the command, or of the group that it belongs to."""
    for each in (ctx, ctx.parent):
        if each is not None and each.params.get(name):
            return each.params[name]
    return None


def _items(values: Iterable[str]) -> Items:
    return [CompletionItem(value) for value in values if _HARMLESS.fullmatch(value)]
