"""`gpu-admission demo`: conversion from end to end, on a cluster in memory."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import aiohttp
import click

from policies.devices.resource_claims import Claim
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import lookup, name_of, namespace_of
from webhook.cli.cluster_options import ClusterOptions
from webhook.cli.kubectl import apply, as_written
from webhook.cli.manifest_reader import ManifestReader, UnreadableInputError
from webhook.cli.reports.audit_reports import text
from webhook.cli.reports.live_audits import audit_cluster
from webhook.cli.serve.sandbox_start import load, loaded_sandbox
from webhook.cli.shipped_files import shipped_path
from webhook.cli.text_layout import diff
from webhook.cluster.client import APIClient
from webhook.cluster.resources import RESOURCES
from webhook.controllers.replica import Replica
from webhook.controllers.replica_config import NAMESPACE, SERVICE, ReplicaConfig
from webhook.pages.report_model import Tone
from webhook.pages.text_report import colour_diff_line, colour_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cli.kubectl import Applied
    from webhook.cli.manifest_reader import Manifest
    from webhook.cluster.resources import Resource
    from webhook.sandbox.server import Sandbox


_CLAIMS_SECONDS = 10.0


@asynccontextmanager
async def webhook_beside(sandbox: Sandbox) -> AsyncIterator[None]:
    """Run one replica of the service, connected to the sandbox as a pod is to its cluster."""
    replica = Replica(await _client(sandbox), ReplicaConfig(port=0, probe_port=0, explain_port=0))
    try:
        ready = await replica.start()
        sandbox.services[NAMESPACE, SERVICE] = (ready.host, ready.port)
        yield
    finally:
        await replica.close()


async def _client(sandbox: Sandbox) -> APIClient:
    """A client with the ServiceAccount of the service."""
    with kubeconfig(sandbox.kubeconfig(f"system:serviceaccount:{NAMESPACE}:{SERVICE}")) as file:
        return await APIClient.connect(file)


@contextmanager
def kubeconfig(text: str) -> Iterator[str]:
    """A temporary file with a kubeconfig."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(text)
        yield str(file)


async def without_webhooks(session: aiohttp.ClientSession, pod: Object) -> Object:
    """The pod as it would be stored without webhooks, or as it is if the API server refuses it."""
    path = _POD.path(namespace_of(pod))
    async with session.post(path, json=pod, params={"dryRun": "All"}) as answer:
        stored: Object = await answer.json()
        return stored if answer.ok else pod


async def made_claims(session: aiohttp.ClientSession, pod: Object) -> Sequence[Object]:
    """The claims in the status of a new pod, once it has any."""
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={name_of(pod)}",
        "resourceVersion": pod["metadata"]["resourceVersion"],
    }
    path = _POD.path(namespace_of(pod))
    async with asyncio.timeout(_CLAIMS_SECONDS), session.get(path, params=query, raise_for_status=True) as events:
        async for event in events.content:
            statuses: Sequence[Object] | None = lookup(json.loads(event), ("object", "status", "resourceClaimStatuses"))
            if statuses:
                return statuses
    return ()


_POD = RESOURCES["Pod"]
_PRIORITY_CLASS = RESOURCES["PriorityClass"]
_SETTINGS = Path("bypass") / "settings.yaml"
"""The defaults, except that GPU access without a request is refused instead of warned about."""
_USER = "alice"

_LISTED = re.compile(r"^- \[(.+?)\]\((\S+?)\)", re.MULTILINE)

_BEGIN = """\
An API server in memory holds the cluster of {examples}/cluster and what {deploy}/install.yaml installs.
The webhook watches it, and it calls the webhook over TLS. Settings: the defaults, but access.mode: deny.
"""
_TRY_NEXT = """\
Try next, with gpu-admission on your PATH (in a checkout: .venv/bin):
  gpu-admission review --cluster {examples}/cluster -n team-a POD.yaml   the same for your own manifests
  gpu-admission rules                                                what is refused, and why
  gpu-admission sandbox {examples}/cluster {deploy}/install.yaml     the same API server, for kubectl and curl"""


@click.command("demo")
@click.option(
    "--examples",
    type=click.Path(path_type=Path),
    default=lambda: shipped_path("examples"),
    help="The folder of examples, with a folder `cluster` in it; default: those of gpu-admission.",
)
@click.option(
    "--deploy",
    type=click.Path(path_type=Path),
    default=lambda: shipped_path("deploy"),
    help="The folder with what a cluster installs, `install.yaml`; default: that of gpu-admission.",
)
def command(examples: Path, deploy: Path) -> None:
    """Show conversion from end to end, on a cluster in memory.

    Starts an API server in memory with the cluster of the examples, and the webhook beside it. Applies the pods of the
    examples as `kubectl apply` does, and shows for each what kubectl prints, the stored pod, and its claims. Then audits
    the cluster and ends.

    \b
    With the examples of gpu-admission:
      gpu-admission demo
    Page by page, without colours:
      NO_COLOR=1 gpu-admission demo | less
    With examples of your own, which are a README.md, a folder `cluster`, and a folder for each pod:
      gpu-admission demo --examples my-examples --deploy deploy
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if not ((examples / "cluster").is_dir() and (examples / "README.md").is_file()):
        raise click.UsageError(f"{examples} is not the folder of the examples; run the demo beside it, or name it")
    if not (deploy / "install.yaml").is_file():
        raise click.UsageError(f"{deploy} has no install.yaml; run the demo beside the folder, or name it")
    reader = ManifestReader()
    sandbox, _ = loaded_sandbox([str(examples / "cluster")], reader)
    manifests = [*_manifests(examples, reader)]
    pods = [(title, each) for title, each in manifests if _is_of(_POD, each) and _is_at_home(each, sandbox)]
    classes = [each for _, each in manifests if _is_of(_PRIORITY_CLASS, each)]
    installed = reader.manifests([str(deploy / "install.yaml"), str(examples / _SETTINGS)])
    reader.check()
    if problems := load(sandbox, classes):
        raise UnreadableInputError(problems)
    click.echo(_BEGIN.format(examples=examples, deploy=deploy))
    asyncio.run(_show(sandbox, pods, installed))
    click.echo(_TRY_NEXT.format(examples=examples, deploy=deploy))


def _manifests(examples: Path, reader: ManifestReader) -> Iterator[tuple[str, Manifest]]:
    """The manifests of the examples with their titles, in the order of the README.

    Some examples have no manifests, because they explain pods of the cluster.
    """
    for title, name in _LISTED.findall((examples / "README.md").read_text()):
        folder = examples / name
        if folder.is_dir() and not any(file.suffix in (".yaml", ".json") for file in folder.glob("*")):
            continue
        for manifest in reader.manifests([str(folder)]):
            yield title, manifest


def _is_of(resource: Resource, manifest: Manifest) -> bool:
    return (manifest.object["apiVersion"], manifest.object["kind"]) == (resource.api_version, resource.kind)


def _is_at_home(manifest: Manifest, sandbox: Sandbox) -> bool:
    """True if a pod names a namespace of the cluster; some examples use another one, or name none."""
    namespace = namespace_of(manifest.object)
    return bool(namespace) and sandbox.get("Namespace", namespace) is not None


async def _show(sandbox: Sandbox, pods: Sequence[tuple[str, Manifest]], installed: Sequence[Manifest]) -> None:
    """Install the webhook, apply every pod, and show the results."""
    await sandbox.start()
    try:
        async with aiohttp.ClientSession(sandbox.url, headers={"Authorization": f"Bearer {_USER}"}) as session:
            plain = [await without_webhooks(session, manifest.object) for _, manifest in pods]
            if problems := load(sandbox, installed):
                raise UnreadableInputError(problems)
            async with webhook_beside(sandbox):
                applied = [
                    await _show_one(sandbox, session, title, manifest, before)
                    for (title, manifest), before in zip(pods, plain, strict=True)
                ]
                await _show_again(sandbox, session, pods[0][1])
        refused = sum(one.refused for one in applied)
        counted = colour_text(f"{len(pods)} pods: {len(pods) - refused} stored, {refused} refused", bold=True)
        click.echo(f"{counted}. Each was reviewed over TLS, in the order of an API server.\n")
        await _show_audit(sandbox)
    finally:
        await sandbox.stop()


async def _show_one(
    sandbox: Sandbox, session: aiohttp.ClientSession, title: str, manifest: Manifest, plain: Object
) -> Applied:
    """Apply one pod; unless it is refused, show the stored pod and the requests of its claims."""
    _echo_title(title)
    await _make_room(sandbox, session, manifest.object)
    applied = await _apply(session, manifest)
    if not applied.refused:
        pod = applied.answer
        for line in diff(manifest.object, as_written(pod, manifest.object, plain), f"pod/{name_of(pod)}"):
            click.echo(colour_diff_line(line))
        await _show_claims(sandbox, session, pod)
    click.echo()
    return applied


async def _make_room(sandbox: Sandbox, session: aiohttp.ClientSession, pod: Object) -> None:
    """Delete the pod of an earlier example that has the same name."""
    name, namespace = name_of(pod), namespace_of(pod)
    if sandbox.get(_POD.kind, name, namespace) is None:
        return
    _echo_command(f"kubectl -n {namespace} delete pod {name}")
    async with session.delete(_POD.path(namespace, name), raise_for_status=True):
        click.echo(f'pod "{name}" deleted')


async def _apply(session: aiohttp.ClientSession, manifest: Manifest) -> Applied:
    """Apply a pod, and show what kubectl prints."""
    pod = manifest.object
    _echo_command(f"kubectl -n {namespace_of(pod)} apply -f {manifest.file}")
    applied = await apply(session, _POD, namespace_of(pod), pod)
    for line in applied.lines(manifest.file, name_of(pod)):
        click.echo(line)
    return applied


async def _show_claims(sandbox: Sandbox, session: aiohttp.ClientSession, pod: Object) -> None:
    """Show the claims of a converted pod, once they are created from their templates."""
    if lookup(pod, ("metadata", "labels", MANAGED)) is None:
        return
    templates = {claim["name"]: claim.get("resourceClaimTemplateName") for claim in pod["spec"]["resourceClaims"]}
    for made in await made_claims(session, pod):
        claim = sandbox.get("ResourceClaim", made["resourceClaimName"], namespace_of(pod)) or {}
        click.echo(f"ResourceClaim {name_of(claim)}, made from ResourceClaimTemplate {templates[made['name']]}")
        for subrequest in Claim(claim).subrequests:
            click.echo(f"  {subrequest.full_name}: {subrequest.count} x {subrequest.device_class}")
            for expression in subrequest.expressions:
                click.echo(f"    {expression}")


async def _show_again(sandbox: Sandbox, session: aiohttp.ClientSession, manifest: Manifest) -> None:
    """Apply a converted pod once more: its manifest is the one that it was created with."""
    name, namespace = name_of(manifest.object), namespace_of(manifest.object)
    before = sandbox.get(_POD.kind, name, namespace) or {}
    _echo_title("The first manifest again")
    await _apply(session, manifest)
    if sandbox.get(_POD.kind, name, namespace) == before:
        click.echo(f"pod/{name} is stored as before, with its claim.")
    click.echo()


async def _show_audit(sandbox: Sandbox) -> None:
    """Show the audit of the cluster."""
    _echo_title("The audit of the cluster")
    _echo_command("gpu-admission audit")
    with kubeconfig(sandbox.kubeconfig()) as file:
        # In a thread, because it starts an event loop.
        audited = await asyncio.to_thread(audit_cluster, ClusterOptions(kubeconfig=file))
    click.echo(text(audited))
    click.echo()


def _echo_title(title: str) -> None:
    click.echo(colour_text(f"━━ {title} ", Tone.NOTE, bold=True))


def _echo_command(command_line: str) -> None:
    click.echo(colour_text(f"$ {command_line}", bold=True))
