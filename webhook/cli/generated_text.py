"""Generated documents as text: YAML with comments; the commands in them can be pasted into a shell."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

import click

from policies.analyses.generate.documents import GenerationError, Target
from policies.kubernetes.names import format_list
from webhook.cli.dump import dump
from webhook.cli.manifest_reader import ManifestReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policies.analyses.generate.documents import Generated, Step

__all__ = ["read_target", "show"]

_WIDTH = 100


def read_target(namespace: str, file: str | None) -> Target:
    """The ConfigMap that a configuration is written into: a new one, or that of a file.

    Raises:
        UnreadableInputError: The file cannot be read.
        click.BadParameter: It does not have exactly one ConfigMap.
    """
    if file is None:
        return Target(namespace)
    reader = ManifestReader()
    found = [manifest.object for manifest in reader.manifests([file])]
    reader.check()
    if len(found) != 1 or found[0].get("kind") != "ConfigMap":
        kinds = format_list([str(each.get("kind")) for each in found])
        raise click.BadParameter(f"has {kinds}; name a file with one ConfigMap", param_hint="'--add-to'")
    return Target(namespace, found[0])


def show(generate: Callable[[], Generated]) -> None:
    """Print what a function generates, whole or not at all.

    Raises:
        click.UsageError: Nothing can be generated.
    """
    try:
        generated = generate()
    except GenerationError as error:
        if error.option:
            raise click.BadParameter(str(error), param_hint=f"'{error.option}'") from None
        raise click.UsageError(str(error)) from None
    click.echo("\n".join(_parts(generated)))


def _parts(generated: Generated) -> Iterator[str]:
    """The remarks, the object, and the steps, each without its last line break."""
    for remark in generated.remarks:
        yield _comment(remark)
    if generated.document is not None:
        yield dump(generated.document).removesuffix("\n")
    for step in generated.steps:
        yield "#"
        yield _step(step)


def _step(step: Step) -> str:
    return "\n".join([_comment(step.text), *(f"#   {line}" for line in step.lines)])


def _comment(text: str) -> str:
    """A sentence as lines of comments; commands are not wrapped, because a shell reads them."""
    return "\n".join(f"# {line}" for line in wrap(text, _WIDTH - 2, break_long_words=False, break_on_hyphens=False))
