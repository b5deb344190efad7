"""`gpu-admission demo`: the main job from end to end, with nothing else present."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import click

from policies.kubernetes.printable import printable
from policies.review import review
from policies.settings import Access, GPUAdmissionPolicy
from webhook.cli import kubectl
from webhook.cli.api_server import admit
from webhook.cli.diff import diff, styled
from webhook.cli.documents import Reader
from webhook.cli.subjects import Circumstances, subjects_of
from webhook.cluster.manifests import ManifestsView
from webhook.server.config import SelfSigned, ServerConfig
from webhook.server.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from webhook.cli.api_server import Admission
    from webhook.cli.subjects import Subject
    from webhook.server.service import Ready

__all__ = ["command"]

_SETTINGS = GPUAdmissionPolicy(access=Access(mode="deny"))
"""The defaults, but that GPUs taken behind the scheduler's back are refused and not only warned about."""

_LISTED = re.compile(r"^- \[(.+?)\]\((\S+?)\)", re.MULTILINE)

_TRY_NEXT = """\
Try next, with .venv/bin on your PATH:
  gpu-admission review --cluster {examples}/cluster -n team-a POD.yaml   the same for your own manifests
  gpu-admission rules                                                what is refused, and why
  gpu-admission serve --cluster {examples}/cluster                       the webhook itself, to ask with curl"""


@click.command("demo")
@click.option(
    "--examples",
    type=click.Path(path_type=Path),
    default=Path("examples"),
    show_default=True,
    help="The folder of examples, with a folder `cluster` in it.",
)
def command(examples: Path) -> None:
    """Show the main job from end to end, on a cluster made of files.

    Starts the webhook on a port of this machine, posts AdmissionReviews for the pods of the examples to it over TLS as
    an API server would, and shows for each what `kubectl apply` would print and how the pod is stored. Ends by itself.
    """
    if not ((examples / "cluster").is_dir() and (examples / "README.md").is_file()):
        raise click.UsageError(f"{examples} is no folder of examples; run the demo where they are, or name the folder")
    asyncio.run(_demo(examples))


async def _demo(examples: Path) -> None:
    reader = Reader()
    view = ManifestsView(reader.cluster([str(examples / "cluster")]))
    pods = list(_pods(examples, reader))
    if reader.problems:
        reader.fail()
    service = Service(ServerConfig(certificate=SelfSigned(), port=0, probe_port=0), view, _SETTINGS)
    ready = await service.start()
    try:
        click.echo(f"The webhook serves the cluster of {examples}/cluster at https://localhost:{ready.port}, with")
        click.echo("the default settings, but access.mode: deny.\n")
        await _show_all(ready, pods, view)
    finally:
        await service.close()
    click.echo(_TRY_NEXT.format(examples=examples))


def _pods(examples: Path, reader: Reader) -> Iterator[tuple[str, Subject]]:
    """The pods of the examples, each with the title of its example, in the order of the list in their README.

    Some examples have no manifests: they ask about what runs on the cluster already.
    """
    for title, name in _LISTED.findall((examples / "README.md").read_text()):
        folder = examples / name
        if folder.is_dir() and not any(file.suffix in (".yaml", ".json") for file in folder.glob("*")):
            continue
        manifests = reader.manifests([str(folder)])
        for subject in subjects_of(manifests, [], Circumstances(), reader):
            if (subject.request.group, subject.request.kind) == ("", "Pod"):
                yield title, subject


async def _show_all(ready: Ready, pods: list[tuple[str, Subject]], view: ManifestsView) -> None:
    verified = ssl.create_default_context(cadata=(ready.ca_pem or b"").decode())
    connector = aiohttp.TCPConnector(ssl=verified)
    url = f"https://localhost:{ready.port}"
    verdicts = []
    async with aiohttp.ClientSession(connector=connector, raise_for_status=True) as session:
        for title, subject in pods:
            admission = await admit(session, url, subject.request, view)
            verdicts.append("refused" if admission.denied_by else "stored")
            for line in _lines(title, subject, admission):
                click.echo(line)
            if not admission.denied_by:
                for line in _claims(subject, view):
                    click.echo(line)
            click.echo()
    calls = f"{len(pods)} pods: {verdicts.count('stored')} stored, {verdicts.count('refused')} refused"
    click.echo(f"{click.style(calls, bold=True)}. Each was asked about over TLS, in the API server's order.\n")


def _lines(title: str, subject: Subject, admission: Admission) -> Iterator[str]:
    file = subject.manifest.file
    yield click.style(f"━━ {title} ", fg="cyan", bold=True)
    yield click.style(f"$ kubectl -n {subject.request.namespace} apply -f {file}", bold=True)
    yield from map(kubectl.warning, admission.warnings)
    if admission.denied_by:
        message = "\n".join(printable(line) for line in admission.status["message"].splitlines())
        yield kubectl.forbidden(file, "CREATE", kubectl.denied(admission.denied_by, message))
    else:
        yield f"pod/{subject.name} created"
        yield from map(styled, diff(subject.document, admission.object, f"pod/{subject.name}"))
    yield click.style(f"asked: {', '.join(admission.calls)}", dim=True)


def _claims(subject: Subject, view: ManifestsView) -> Iterator[str]:
    """What the pod's template asks for; the webhook tells the API server its name only."""
    for template in review(subject.request, view, _SETTINGS).templates:
        yield f"ResourceClaimTemplate {template.name}"
        for request in template.spec["spec"]["devices"]["requests"]:
            exactly = request["exactly"]
            yield f"  {request['name']}: {exactly['count']} x {exactly['deviceClassName']}"
            yield from (f"    {selector['cel']['expression']}" for selector in exactly.get("selectors", []))
