"""Explanations over HTTPS: posted objects, and objects of the cluster by name."""

import pytest

from policies.analyses.explain import Explanation, explain
from policies.kubernetes.objects import json_document
from policies.outcome import questions
from policies.rules.settings import DEFAULTS, AddedKind, GPUAdmissionPolicy, Workloads
from tests.server.explain.calls import CLAIM, answered, ask


def of_core(document, view, namespace="default"):
    return [
        json_document(explain(question, view, DEFAULTS), Explanation)
        for question in questions(document, namespace, view, DEFAULTS)
    ]


async def test_posted_claim_is_explained(caller, cluster):
    (explanation,) = answered(await ask(caller, {"object": CLAIM}))
    assert [explanation] == of_core(CLAIM, cluster)
    assert (explanation["verdict"], explanation["fitNow"]) == ("fits", 3)


async def test_posted_pod_is_explained_as_it_would_be_converted(caller, pod):
    (explanation,) = answered(await ask(caller, {"object": pod()}))
    assert (explanation["label"], explanation["verdict"]) == ("pod team-a/train", "fits")
    assert explanation["convertedTo"].startswith("gpu-")


async def test_namespace_is_that_of_objects_that_name_none(caller, pod):
    document = pod()
    del document["metadata"]["namespace"]
    labels = [
        answered(await ask(caller, {"object": document, **namespace}))[0]["label"]
        for namespace in ({"namespace": "team-legacy"}, {"namespace": None}, {})
    ]
    assert labels == ["pod team-legacy/train", "pod default/train", "pod default/train"]


async def test_each_template_of_a_workload_is_explained(caller, pod):
    template = {"spec": pod()["spec"]}
    document = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "big", "namespace": "team-a"},
        "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}, "Worker": {"template": template}}},
    }
    explanations = answered(await ask(caller, {"object": document}))
    assert [explanation["label"] for explanation in explanations] == [
        "PyTorchJob team-a/big, spec.pytorchReplicaSpecs.Master.template",
        "PyTorchJob team-a/big, spec.pytorchReplicaSpecs.Worker.template",
    ]


@pytest.mark.parametrize("kind", ["claim", "ResourceClaim", "resourceclaims.resource.k8s.io"])
async def test_object_of_the_cluster_is_explained_by_its_name(start_webhook, client_of, client_context, cluster, kind):
    from webhook.cluster.manifests import ManifestsView

    facts = [item for each in ("DeviceClass", "Namespace", "Node", "ResourceSlice") for item in cluster.list(each)]
    view = ManifestsView([*facts, CLAIM])
    webhook = await start_webhook(view=view, allowed=["dashboard"])
    client = await client_of(webhook.explain_port, client_context("dashboard"))
    question = {"kind": kind, "namespace": "team-a", "name": "gpu"}
    assert answered(await ask(client, question)) == of_core(CLAIM, view)


async def test_object_of_a_kind_that_the_settings_add_is_explained_by_its_name(
    start_webhook, client_of, client_context, pod
):
    from webhook.cluster.manifests import ManifestsView

    run = {"apiVersion": "example.com/v1", "kind": "TrainingRun", "metadata": {"name": "run", "namespace": "default"}}
    settings = GPUAdmissionPolicy(workloads=Workloads((AddedKind("example.com", "TrainingRun", ("spec.template",)),)))
    view = ManifestsView([{**run, "spec": {"template": {"spec": pod()["spec"]}}}])
    webhook = await start_webhook(view=view, settings=settings, allowed=["dashboard"])
    client = await client_of(webhook.explain_port, client_context("dashboard"))
    (explanation,) = answered(await ask(client, {"kind": "trainingrun", "name": "run"}))
    assert explanation["label"] == "TrainingRun default/run"
