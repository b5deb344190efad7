"""Sandboxes that serve clusters of the examples."""

from __future__ import annotations

from contextlib import asynccontextmanager

from testbed import libyaml
from tests.cli.quota_files import EXAMPLES, ROOT
from tests.sandbox.faults import FaultySandbox


@asynccontextmanager
async def example_sandbox(tmp_path, *clusters, kinds=None, definitions=(), **options):
    """A sandbox with the objects of these clusters, of all kinds by default; its kubeconfig is in `sandbox.file`.

    Definitions are files of CustomResourceDefinitions in deploy/base/api; options are those of a sandbox.
    """
    sandbox = FaultySandbox(seed=1, **options)
    for name in definitions:
        sandbox.create(libyaml.load((ROOT / "deploy" / "base" / "api" / name).read_text()))
    there = {each["metadata"]["name"] for each in sandbox.objects("Namespace")}
    for each in sorted(_objects(clusters), key=lambda each: each["kind"] != "Namespace"):
        if kinds is not None and each["kind"] not in kinds:
            continue
        name = each["metadata"]["name"]
        if each["kind"] != "Namespace" or name not in there:
            sandbox.create(each)
            there.add(name)
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


def _objects(clusters):
    for name in clusters:
        for file in sorted((EXAMPLES / name).glob("*.yaml")):
            for document in libyaml.load_all(file.read_text()):
                # version.yaml is no object.
                yield from document.get("items", [document] if "kind" in document else [])
