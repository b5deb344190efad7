"""The command line, `gpu-admission`.

Each command is a module with an attribute `command`, imported when it is used: the imports of `serve` take longer than
the review of a folder of manifests.
"""

from __future__ import annotations

import click

from webhook.cli.lazy_group import LazyGroup

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "review": "Review manifests as the webhook would, before they are applied.",
    "test": "Test that gpu-admission decides as your suites expect.",
    "migrate": "Rewrite manifests from the device plugin to claims, and back.",
    "explain": "Show where a pod or claim fits, and why not elsewhere.",
    "cel": "Show which devices a selector matches, and why.",
    "plan": "Show what a change of GPU configuration would break, before it is applied.",
    "audit": "Review all objects of a cluster; show which namespaces are ready to convert.",
    "quota": "Show the GPU limits of namespaces, what is used, and which pods use it.",
    "usage": "Show who holds which GPUs, and which are free.",
    "report": "Write a page that shows GPUs, holders, quotas and findings.",
    "snapshot": "Write a running cluster into files for --cluster, without secrets.",
    "generate": "Print a configuration, quota, claim or wish from a few options.",
    "rules": "List the rules, or explain one.",
    "serve": "Serve the webhook over HTTPS.",
    "preflight": "Show what an install or upgrade would do, before it is applied.",
    "doctor": "Show whether an installation works, and what to do if not.",
    "apply-webhooks": "Apply the webhooks of a version, without a call that fails.",
    "delete-webhooks": "Delete the webhooks, before gpu-admission is removed.",
    "sandbox": "Serve a Kubernetes API of manifests, for tests and for trying out.",
    "demo": "Show conversion from end to end, on a cluster in memory.",
    "completion": "Print the script that completes commands in bash, zsh or fish.",
}
"""The names of the commands, and what each does."""


@click.group(cls=LazyGroup, summaries=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpu-admission", message="%(prog)s %(version)s")
def main() -> None:
    """Admission control for the NVIDIA GPUs of a Kubernetes cluster.

    \b
    What would the cluster do with this manifest?
      gpu-admission review --live pod.yaml
    Why is this pod Pending?
      gpu-admission explain pod/train -n team-a
    Who holds which GPUs, and which are free?
      gpu-admission usage
    What does a rule require, and why?
      gpu-admission rules GA307
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
