"""`kubectl apply` of the manifest of a pod that was converted."""

from testbed import manifests

_IMMUTABLE = "spec: Forbidden: pod updates may not change fields other than"


def applied(cluster, **labels):
    """The manifest of a converted pod, which no scheduler changes meanwhile: there is no such node."""
    nowhere = {"kubernetes.io/hostname": "gpu-admission-test-nowhere"}
    document = manifests.pod(cluster.namespace(dra="enabled", **labels), nodeSelector=nowhere)
    cluster.apply(document).object  # noqa: B018 - it is not refused
    return document


def stored(cluster, document):
    return cluster.get("Pod", document["metadata"]["name"], document["metadata"]["namespace"]).object


def test_applying_the_same_manifest_again_changes_nothing(cluster):
    document = applied(cluster)
    before = stored(cluster, document)
    answer = cluster.apply(document)
    assert (answer.code, answer.warnings) == (200, ())
    assert answer.object["spec"] == before["spec"]
    assert answer.object["metadata"]["generation"] == before["metadata"]["generation"]


def test_new_image_goes_through_and_the_claims_stay(cluster):
    document = applied(cluster)
    claims = stored(cluster, document)["spec"]["resourceClaims"]
    document["spec"]["containers"][0]["image"] = "registry.example/train:2"
    spec = cluster.apply(document).object["spec"]
    assert spec["containers"][0]["image"] == "registry.example/train:2"
    assert spec["containers"][0]["resources"] == {"claims": [{"name": "gpu", "request": "main"}]}
    assert spec["resourceClaims"] == claims


def test_another_amount_is_refused_by_the_api_server_and_explained_by_us(cluster):
    document = applied(cluster)
    document["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = 2
    answer = cluster.apply(document)
    assert answer.code == 422
    assert answer.message.startswith(f'Pod "train" is invalid: {_IMMUTABLE}')
    assert " ".join(line.strip() for line in answer.warnings) == (
        "Delete the pod and create it again: nvidia.com/gpu is 2 and the pod was created with 1, and the GPUs of a pod "
        "cannot change; spec.containers[0].resources.limits[nvidia.com/gpu] [GA328]"
    )


def test_labels_of_a_converted_pod_can_be_changed(cluster):
    document = applied(cluster)
    document["metadata"]["labels"] = {"app": "train"}
    answer = cluster.apply(document)
    assert answer.object["metadata"]["labels"] == {"app": "train", "gpu-admission.io/managed": "true"}
