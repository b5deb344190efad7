"""Options that several commands have, the completion of their values, and their checks."""

from __future__ import annotations

from contextlib import contextmanager, redirect_stderr
from functools import wraps
from io import StringIO
from typing import TYPE_CHECKING, Any, TypeVar

import click

from webhook.cli.cluster_options import ClusterOptions
from webhook.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.shell_completion import CompletionItem

    from policies.kubernetes.view import ClusterView
    from webhook.cli.completion import Values
    from webhook.cli.settings import RunningFacts

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[Any]]]


def complete_from(values: Values, *, or_paths: bool = False) -> Complete:
    """Completes a parameter by values of `webhook.cli.completion`, silently by nothing if that fails.

    With `or_paths`, the shell completes names of files and folders if there is no other value.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        # Whatever fails, an error message would be printed into the command line that the user is writing.
        try:
            with redirect_stderr(StringIO()):
                from webhook.cli.completion import completion_items

                found = completion_items(values, ctx, incomplete)
        except Exception:  # noqa: BLE001 - see above
            found = []
        return found or (complete_paths(ctx, param, incomplete) if or_paths else [])

    return complete


def complete_paths(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Leaves the names of files and folders to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


F = TypeVar("F", bound="Callable[..., Any]")


@contextmanager
def open_cluster(source: ClusterOptions, *, is_running: bool) -> Iterator[RunningFacts | None]:
    """Show the progress until the end, and read a running cluster meanwhile; None for files.

    Raises:
        NoClusterError: The cluster cannot be reached, or does not accept the credentials.
    """
    if not is_running:
        with Progress():
            yield None
        return
    from webhook.cli.running_clusters import running_cluster

    with Progress(), running_cluster(source) as cluster:
        yield cluster


def takes_cluster(command: Callable[..., None]) -> Callable[..., None]:
    """Pass the options that say which cluster is read as one value, `source`."""

    @wraps(command)
    def run(*args: Any, **given: Any) -> None:
        own = {name: given.pop(name) for name in ClusterOptions._fields if name in given}
        command(*args, source=ClusterOptions(**own), **given)

    return run


class NoNamespaceError(click.ClickException):
    """A namespace does not exist."""

    exit_code = 2


def files_option(what: str) -> Callable[[F], F]:
    """The option `--cluster`: files or folders with `what` (sentences), the objects of a cluster."""
    text = f"Files or folders with {what} Can be repeated."
    return click.option("--cluster", multiple=True, metavar="PATH", shell_complete=complete_paths, help=text)


def static_option(command: F) -> F:
    """Add the option `--static`: the files of an API server."""
    text = "Files or folders of the API servers, as deploy/render.py --static writes them. Can be repeated."
    option = click.option("--static", multiple=True, metavar="PATH", shell_complete=complete_paths, help=text)
    return option(command)


def filename_option(command: F) -> F:
    """Add the option `--filename`, as kubectl has it: what the command is about."""
    text = "A file or folder. Can be repeated."
    option = click.option(
        "-f", "--filename", "files", multiple=True, metavar="FILE", shell_complete=complete_paths, help=text
    )
    return option(command)


def settings_option(default: str) -> Callable[[F], F]:
    """The option `--settings`, with the settings that hold without it."""
    text = f"A GPUAdmissionPolicy; default: {default}."
    return click.option("--settings", metavar="FILE", shell_complete=complete_paths, help=text)


def namespace_option(text: str) -> Callable[[F], F]:
    """The option `--namespace`, whose help is a sentence."""
    return click.option(
        "-n", "--namespace", default="", metavar="NAME", shell_complete=complete_from("namespaces"), help=text
    )


def output_option(text: str, json: str, **others: str) -> Callable[[F], F]:
    """The option `--output`, with what each format shows; `others` are further formats."""
    formats = click.Choice(["text", "json", *others])
    more = "".join(f" {name}: {shown}." for name, shown in others.items())
    shown = f"text: {text}. json: {json}, for programs.{more}"
    return click.option("-o", "--output", type=formats, default="text", show_default=True, help=shown)


def connection_options(command: F) -> F:
    """Add the options that say how to reach a running cluster."""
    text = "The context of the kubeconfig; default: its current one."
    context = click.option("--context", metavar="NAME", shell_complete=complete_from("contexts"), help=text)
    text = "How to reach the cluster; default: as kubectl finds it."
    kubeconfig = click.option("--kubeconfig", metavar="FILE", shell_complete=complete_paths, help=text)
    return kubeconfig(context(command))


def live_options(command: F) -> F:
    """Add the options of commands that read a running cluster only if one of them is given."""
    text = "Take facts from the running cluster, as with --kubeconfig or --context; only reads are sent."
    live = click.option("--live", is_flag=True, help=text)
    return live(connection_options(command))


def cluster_options(command: F) -> F:
    """Add the options of commands that read a running cluster or the files of one, and print text or JSON."""
    namespace = namespace_option("Read only this namespace.")
    return connection_options(namespace(settings_option("the one of the cluster")(command)))


def check_namespace_exists(view: ClusterView, namespace: str) -> None:
    """Refuse a namespace that does not exist: an empty result for a misspelled one would look good.

    Raises:
        NoNamespaceError: The namespace does not exist.
    """
    if namespace and view.get("Namespace", namespace) is None:
        from policies.kubernetes.names import did_you_mean
        from policies.kubernetes.objects import name_of

        hint = did_you_mean(namespace, map(name_of, view.known_objects("Namespace")))
        raise NoNamespaceError(f"namespace {namespace} does not exist{hint}")
