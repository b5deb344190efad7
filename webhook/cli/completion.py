"""`gpu-admission completion`, and the values that shells offer.

Each kind of value imports what it needs when it is looked up.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource


_VARIABLE = "_GPU_ADMISSION_COMPLETE"
"""The environment variable by which click knows that a shell asks; its name follows from that of the program."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, rules, files, namespaces and objects in a shell.

    \b
    In bash 4.4 or newer, also in ~/.bashrc:
      source <(gpu-admission completion bash)
    In zsh, also in ~/.zshrc, below compinit:
      source <(gpu-admission completion zsh)
    In fish, for all shells that start later:
      gpu-admission completion fish > ~/.config/fish/completions/gpu-admission.fish

    Namespaces and objects come from the files of --cluster, else from the cluster of the kubeconfig. If that does not
    answer within 1.5 seconds, none are offered.
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from click.shell_completion import get_completion_class

    completion = get_completion_class(shell)
    if completion is not None:
        program = completion(ctx.find_root().command, {}, "gpu-admission", _VARIABLE)
        click.echo(completion.source_template % program.source_vars())


Values = Literal["contexts", "failures", "kinds", "namespaces", "objects", "products", "rules"]

_HARMLESS = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+=:,./-]*")
"""Values that no shell reads as anything else than a word. Shells insert values as they are, and files have any names."""
_LARGEST = 1_000_000
"""The most bytes of files that are read; larger ones take longer than a second."""
_SECONDS = 1.5
"""Time limit for a cluster to answer; a user who presses TAB waits."""
_MOST = 500
"""The most objects that are listed."""


def completion_items(values: Values, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
    """The values that begin with what is written so far."""
    found: Iterable[str]
    match values:
        case "rules":
            return _rules(incomplete)
        case "failures":
            before, comma, word = incomplete.rpartition(",")
            severities = [CompletionItem(each) for each in ("deny", "warn") if each.startswith(word)]
            return [
                CompletionItem(f"{before}{comma}{each.value}", help=each.help) for each in (*severities, *_rules(word))
            ]
        case "contexts":
            from webhook.cluster.credentials import context_names

            found = (name for name in context_names(_option(ctx, "kubeconfig")) if name.startswith(incomplete))
        case "kinds":
            from policies.admission import rule_book

            found = (kind for kind in rule_book().kinds if kind.lower().startswith(incomplete.lower()))
        case "products":
            found = _products(incomplete.lower())
        case "namespaces":
            from policies.kubernetes.objects import name_of
            from webhook.cluster.resources import RESOURCES

            names = map(name_of, _objects(ctx, RESOURCES["Namespace"], ""))
            found = sorted(name for name in names if name.startswith(incomplete))
        case "objects":
            found = _named_objects(ctx, incomplete)
    return [CompletionItem(value) for value in found if _HARMLESS.fullmatch(value)]


def _rules(typed: str) -> list[CompletionItem[Any]]:
    """The rules whose id begins with what is written so far, with their titles."""
    from importlib.resources import files

    lines = (files("policies") / "rule_titles.txt").read_text(encoding="utf-8").splitlines()
    rules = (line.partition(" ") for line in lines if line.startswith(typed.upper()))
    return [CompletionItem(rule_id, help=title) for rule_id, _, title in rules]


def _option(ctx: click.Context, name: str) -> Any:
    """The value of an option of the command, or of the group that it belongs to."""
    contexts = (each for each in (ctx, ctx.parent) if each is not None)
    return next((each.params[name] for each in contexts if each.params.get(name)), None)


def _products(typed: str) -> list[str]:
    """The known products without their brand; as labels have them once its first letter is written."""
    from policies.nvidia.products import KNOWN_PRODUCTS

    brand = "NVIDIA-"
    names = {name for label in KNOWN_PRODUCTS for name in (label, label.removeprefix(brand))}
    found = sorted(name for name in names if name.lower().startswith(typed))
    return found if typed.startswith("n") else [name for name in found if not name.startswith(brand)]


def _named_objects(ctx: click.Context, incomplete: str) -> list[str]:
    """Objects as `KIND/NAME`, or as names after a kind; pods with devices and manifests without a kind."""
    from pathlib import Path

    from webhook.cli.folders import SUFFIXES

    word, slash, _ = incomplete.partition("/")
    if (kind := next(iter(ctx.params.get("names") or ()), "")) and not (slash or "/" in kind or Path(kind).exists()):
        names = (each.removeprefix(f"{kind}/") for each in _objects_of_kind(ctx, kind, f"{kind}/{incomplete}"))
        return [name for name in names if name not in ctx.params["names"]]
    if slash:
        return _objects_of_kind(ctx, word, incomplete) if word and not Path(word).is_dir() else []
    pods = _objects_of_kind(ctx, "pod", incomplete) if "pod/".startswith(word) else []
    manifests = sorted(each.name for each in Path().iterdir() if each.suffix in SUFFIXES) if pods else []
    return [*pods, *(name for name in manifests if name.startswith(incomplete))]


def _objects_of_kind(ctx: click.Context, word: str, incomplete: str) -> list[str]:
    """The objects of a kind in the namespace, as `KIND/NAME`."""
    from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of
    from policies.nvidia.pod_conditions import REQUESTS_DEVICES
    from webhook.cluster.lookups import find_resource

    resource = find_resource(word)
    namespace = _option(ctx, "namespace") or ""
    if not namespace and not _option(ctx, "cluster"):
        from webhook.cluster.credentials import context_namespace

        namespace = context_namespace(_option(ctx, "kubeconfig"), _option(ctx, "context"))
    found = _objects(ctx, resource, namespace or DEFAULT_NAMESPACE)
    if resource.kind == "Pod":
        found = filter(REQUESTS_DEVICES.holds, found)
    return sorted(name for each in found if (name := f"{word}/{name_of(each)}").startswith(incomplete))


def _objects(ctx: click.Context, resource: Resource, namespace: str) -> Iterable[Object]:
    """The objects of a kind, of --cluster or else of the cluster; of all namespaces for an empty one.

    Raises:
        OSError: kubectl is not installed.
        subprocess.SubprocessError: kubectl failed or did not answer in time.
    """
    if paths := _option(ctx, "cluster"):
        from pathlib import Path

        from policies.kubernetes.view import Unknown
        from webhook.cli.manifest_reader import ManifestReader
        from webhook.cluster.manifests import ManifestsView

        files = [file for path in paths for file in (Path(path), *Path(path).rglob("*")) if file.is_file()]
        if sum(file.stat().st_size for file in files) > _LARGEST:
            return ()
        listed = ManifestsView(ManifestReader().cluster(paths)).list(resource.kind, namespace)
        return () if isinstance(listed, Unknown) else listed
    import json
    import os
    import subprocess

    # Read by kubectl: our own client would import kubernetes-asyncio.
    kubeconfig, context = _option(ctx, "kubeconfig"), _option(ctx, "context")
    command = ["kubectl", "get", "--raw", f"{resource.path(namespace)}?limit={_MOST}"]
    command += ["--context", context] if context else []
    environ = {**os.environ, **({"KUBECONFIG": kubeconfig} if kubeconfig else {})}
    # Without input, a credential plugin cannot wait for a password.
    done = subprocess.run(  # noqa: S603 - no shell reads the arguments
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True
    )
    items: list[Object] = json.loads(done.stdout)["items"]
    return items
