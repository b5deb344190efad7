"""`gpu-admission completion`: the script that makes a shell complete what the user types."""

from __future__ import annotations

import click

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
