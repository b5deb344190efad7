"""Workloads over HTTPS: always admitted, with warnings about their pods."""

import pytest

REMEDY = "Request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb"
LIMIT = "spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]"


@pytest.fixture
def deployment(pod):
    """Make a Deployment whose pods ask for GPUs."""

    def make(gpus=1, namespace="team-a", **metadata):
        template = {"metadata": {"labels": {"app": "train"}}, "spec": pod(gpus)["spec"]}
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "train"}}, "template": template}
        metadata = {"name": "train", "namespace": namespace, **metadata}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}

    return make


@pytest.fixture
def workload_review(review_of):
    """The AdmissionReview about a workload, of whatever group."""

    def make(document, **request):
        group, version = document["apiVersion"].split("/")
        kind = {"group": group, "version": version, "kind": document["kind"]}
        resource = {"group": group, "version": version, "resource": document["kind"].lower() + "s"}
        return review_of(document, **{"kind": kind, "resource": resource, **request})

    return make


async def test_deployment_whose_pods_would_be_refused_passes_with_a_warning(ask, deployment, workload_review):
    response = await ask("workloads", workload_review(deployment("0.5")))
    assert response["allowed"] is True
    assert response["warnings"] == [
        f'{REMEDY}: its pods would be refused: "0.5" is not',
        f"  a whole number of devices; spec.template.{LIMIT}",
    ]
    assert response["auditAnnotations"] == {"findings": "GA302=warn"}
    assert response.keys() == {"uid", "allowed", "warnings", "auditAnnotations"}


async def test_deployment_whose_pods_would_be_converted_passes_silently(ask, deployment, workload_review):
    response = await ask("workloads", workload_review(deployment()))
    assert response.keys() == {"uid", "allowed"}
    assert response["allowed"] is True


async def test_deployment_of_a_preview_namespace_gets_a_warning_of_what_would_be(ask, deployment, workload_review):
    response = await ask("workloads", workload_review(deployment(namespace="team-preview")))
    assert [line.split(" gpu-")[0] for line in response["warnings"]] == [
        "would be converted to ResourceClaimTemplate",
    ]


async def test_custom_workload_is_reported_at_its_template(ask, deployment, workload_review):
    template = deployment("0.5")["spec"]["template"]
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template}}},
    }
    response = await ask("workloads", workload_review(job))
    assert response["allowed"] is True
    assert response["warnings"][-1].endswith(f"  spec.pytorchReplicaSpecs.Worker.template.{LIMIT}")


async def test_update_that_changes_no_template_passes_silently(ask, deployment, workload_review):
    scaled = deployment("0.5")
    scaled["spec"]["replicas"] = 5
    response = await ask("workloads", workload_review(scaled, operation="UPDATE", oldObject=deployment("0.5")))
    assert response.keys() == {"uid", "allowed"}


async def test_update_that_changes_the_template_is_reported_of(ask, deployment, workload_review):
    review = workload_review(deployment("0.5"), operation="UPDATE", oldObject=deployment(1))
    assert (await ask("workloads", review))["warnings"][-1].endswith(f"; spec.template.{LIMIT}")


async def test_deletion_passes_silently(ask, deployment, workload_review):
    review = workload_review(deployment("0.5"), operation="DELETE", object=None, oldObject=deployment("0.5"))
    assert (await ask("workloads", review)).keys() == {"uid", "allowed"}


async def test_object_that_is_no_workload_passes_silently(ask, deployment, workload_review):
    other = {**deployment("0.5"), "apiVersion": "example.com/v1", "kind": "Job"}
    assert (await ask("workloads", workload_review(other))).keys() == {"uid", "allowed"}


async def test_workload_is_logged_as_itself(webhook, deployment, workload_review, lines):
    await webhook.client.ask("workloads", workload_review(deployment("0.5")))
    (line,) = lines(verdict="allowed")
    assert (line["webhook"], line["kind"], line["namespace"], line["name"]) == (
        "workloads",
        "Deployment.apps",
        "team-a",
        "train",
    )
    assert line["rules"] == ["GA302"]
