import pytest

CONFIG_MAP = "/api/v1/namespaces/default/configmaps/settings"
POD = "/api/v1/namespaces/default/pods/job"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/leader"
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


async def test_put_replaces(api, sandbox, config_map):
    sandbox.create(config_map(data={"a": "1"}))
    answer = await api.put(CONFIG_MAP, config_map(data={"b": "2"}))
    assert (answer.code, answer.body["data"]) == (200, {"b": "2"})


async def test_put_keeps_uid_and_time_of_creation(api, sandbox, config_map):
    made = sandbox.create(config_map())
    answer = await api.put(CONFIG_MAP, config_map(data={"b": "2"}, creationTimestamp="1970-01-01T00:00:00Z"))
    assert answer.body["metadata"] == {**made["metadata"], "resourceVersion": "6"}


async def test_put_of_an_older_version_is_409(api, sandbox, config_map):
    made = sandbox.create(config_map())
    await api.merge(CONFIG_MAP, {"data": {"a": "1"}})
    answer = await api.put(CONFIG_MAP, {**made, "data": {"a": "2"}})
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.message == f'Operation cannot be fulfilled on configmaps "settings": {MODIFIED}'


async def test_put_that_changes_nothing_writes_nothing(api, sandbox, config_map):
    made = sandbox.create(config_map(data={"a": "1"}))
    answer = await api.put(CONFIG_MAP, config_map(data={"a": "1"}))
    assert answer.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_put_that_changes_nothing_is_validated(api, sandbox, config_map):
    sandbox.create(config_map(data={"a": "1"}))
    webhook = {
        "name": "nobody.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    validating = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    sandbox.create({**validating, "metadata": {"name": "nobody"}, "webhooks": [webhook]})
    answer = await api.put(CONFIG_MAP, config_map(data={"a": "1"}))
    assert answer.code == 500
    assert answer.message.startswith('Internal error occurred: failed calling webhook "nobody.example.com"')


async def test_put_without_version_is_refused_where_versions_are_a_must(api, sandbox):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"}}
    sandbox.create(lease)
    answer = await api.put(LEASE, lease)
    assert answer.code == 422
    assert answer.message == (
        'leases.coordination.k8s.io "leader" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified'
        " for an update"
    )


async def test_put_of_another_uid_is_409(api, sandbox, config_map):
    uid = sandbox.create(config_map())["metadata"]["uid"]
    answer = await api.put(CONFIG_MAP, config_map(uid="other"))
    assert answer.message == (
        'Operation cannot be fulfilled on configmaps "settings": StorageError: invalid object, Code: 4, Key:'
        " /registry/configmaps/default/settings, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in"
        f" precondition: other, UID in object meta: {uid}"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", "the name of the object (other) does not match the name on the URL (settings)"),
        ("", "the name of the object (settings based on URL) was undeterminable: name must be provided"),
    ],
)
async def test_put_of_another_name_is_400(api, sandbox, config_map, name, message):
    sandbox.create(config_map())
    answer = await api.put(CONFIG_MAP, config_map(name))
    assert (answer.code, answer.message) == (400, message)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "GET"])
async def test_what_is_not_there_is_404(api, config_map, method):
    content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
    body = {"PUT": config_map(), "PATCH": {}}.get(method)
    answer = await api(method, CONFIG_MAP, body, content_type=content_type)
    assert (answer.code, answer.message) == (404, 'configmaps "settings" not found')


async def test_put_creates_a_lease_that_is_not_there(api):
    # Even with a version of one that was there: a leader that renews brings a deleted Lease back. Kubernetes 1.36.2.
    metadata = {"name": "leader", "resourceVersion": "7"}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    answer = await api.put(LEASE, {**lease, "spec": {"holderIdentity": "a"}})
    assert (answer.code, answer.body["spec"]) == (201, {"holderIdentity": "a"})


async def test_empty_parts_of_metadata_are_not_kept(api, config_map):
    # Kubernetes 1.36.2.
    await api.post("/api/v1/namespaces/default/configmaps", config_map(labels={}, annotations={}, finalizers=[]))
    answer = await api.get(CONFIG_MAP)
    assert answer.body["metadata"].keys() == {"name", "namespace", "uid", "creationTimestamp", "resourceVersion"}


async def test_json_patch_changes(api, sandbox, config_map):
    sandbox.create(config_map(data={"a": "1"}))
    answer = await api.patch(CONFIG_MAP, [{"op": "replace", "path": "/data/a", "value": "2"}])
    assert (answer.code, answer.body["data"]) == (200, {"a": "2"})


async def test_json_patch_whose_test_fails_is_422(api, sandbox, config_map):
    sandbox.create(config_map(data={"a": "1"}))
    answer = await api.patch(CONFIG_MAP, [{"op": "test", "path": "/data/a", "value": "2"}])
    assert (answer.code, answer.message) == (422, "the server rejected our request due to an error in our request")


async def test_merge_patch_with_an_older_version_is_409(api, sandbox, config_map):
    sandbox.create(config_map())
    answer = await api.merge(CONFIG_MAP, {"metadata": {"resourceVersion": "1"}, "data": {"a": "1"}})
    assert answer.code == 409


async def test_server_side_apply_is_415(api, sandbox, config_map):
    sandbox.create(config_map())
    answer = await api("PATCH", CONFIG_MAP, {}, content_type="application/apply-patch+yaml")
    assert answer.code == 415
    assert answer.message == (
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json,"
        " application/merge-patch+json, application/strategic-merge-patch+json"
    )


async def test_dry_run_of_a_patch_stores_nothing(api, sandbox, config_map):
    made = sandbox.create(config_map())
    answer = await api.merge(CONFIG_MAP, {"data": {"a": "1"}}, dryRun="All")
    assert answer.body["data"] == {"a": "1"}
    assert sandbox.get("ConfigMap", "settings", "default") == made


async def test_update_leaves_status_alone(api, sandbox, pod):
    sandbox.create({**pod(), "status": {"phase": "Running"}})
    answer = await api.merge(POD, {"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}})
    assert (answer.body["status"], answer.body["metadata"]["labels"]) == ({"phase": "Running"}, {"a": "b"})


async def test_status_of_a_pod_brings_labels_along_but_no_spec(api, sandbox, pod):
    sandbox.create(pod())
    patch = {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "x"}}
    body = (await api.merge(f"{POD}/status", patch)).body
    assert (body["status"], body["metadata"]["labels"], "nodeName" in body["spec"]) == (
        {"phase": "Running"},
        {"a": "b"},
        False,
    )


async def test_status_of_a_claim_brings_no_labels_along(api, sandbox):
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/gpu"
    sandbox.create(
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"}, "spec": {}}
    )
    patch = {"status": {"reservedFor": []}, "metadata": {"labels": {"a": "b"}}}
    body = (await api.merge(f"{path}/status", patch)).body
    assert (body["status"], "labels" in body["metadata"]) == ({"reservedFor": []}, False)


async def test_generation_counts_changes_of_the_spec(api, sandbox):
    path = "/apis/apps/v1/namespaces/default/deployments/web"
    sandbox.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 1}}
    )
    patches = [{"spec": {"replicas": 2}}, {"metadata": {"labels": {"a": "b"}}}]
    generations = [(await api.merge(path, patch)).body["metadata"]["generation"] for patch in patches]
    assert generations == [2, 2]


async def test_pod_spec_does_not_change(api, sandbox, pod):
    sandbox.create(pod())
    answer = await api.merge(
        POD,
        {"spec": {"containers": [{"name": "main", "image": "cuda", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}},
    )
    assert answer.code == 422
    assert answer.message.startswith(
        'Pod "job" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`'
    )


async def test_pod_image_changes(api, sandbox, pod):
    made = sandbox.create(pod())
    container = {**made["spec"]["containers"][0], "image": "other"}
    answer = await api.merge(POD, {"spec": {"containers": [container]}})
    assert (answer.code, answer.body["spec"]["containers"][0]["image"]) == (200, "other")


@pytest.mark.parametrize(
    ("tolerations", "code"), [([], 422), ([{"key": "a"}, {"key": "b"}], 200)], ids=["remove", "add"]
)
async def test_pod_tolerations_are_only_added(api, sandbox, pod, tolerations, code):
    document = pod()
    document["spec"]["tolerations"] = [{"key": "a"}]
    sandbox.create(document)
    answer = await api.merge(POD, {"spec": {"tolerations": tolerations}})
    assert answer.code == code


async def test_claim_template_spec_is_immutable(api, sandbox):
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates/gpu"
    sandbox.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu"},
            "spec": {"spec": {}},
        }
    )
    answer = await api.merge(path, {"spec": {"spec": {"devices": {}}}})
    assert answer.message == (
        'ResourceClaimTemplate.resource.k8s.io "gpu" is invalid: spec: Invalid value: {"spec":{"devices":{}}}: field is'
        " immutable"
    )


async def test_binding_puts_a_pod_on_a_node(api, sandbox, pod):
    sandbox.create(pod())
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "job"}, "target": {"name": "gpu-1"}}
    answer = await api.post(f"{POD}/binding", binding)
    stored = sandbox.get("Pod", "job", "default")
    assert (answer.code, answer.body["status"], stored["spec"]["nodeName"]) == (201, "Success", "gpu-1")
    assert stored["status"]["conditions"][0]["type"] == "PodScheduled"


async def test_second_binding_is_409(api, sandbox, pod):
    sandbox.create(pod(node="gpu-1"))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "job"}, "target": {"name": "gpu-2"}}
    answer = await api.post(f"{POD}/binding", binding)
    assert answer.message == (
        'Operation cannot be fulfilled on pods/binding "job": pod job is already assigned to node "gpu-1"'
    )


async def test_eviction_deletes_the_pod(api, sandbox, pod):
    sandbox.create(pod())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "job"}}
    answer = await api.post(f"{POD}/eviction", eviction)
    assert (answer.code, sandbox.objects("Pod")) == (201, [])


async def test_ephemeral_containers_are_a_part_of_their_own(api, sandbox, pod):
    sandbox.create(pod())
    patch = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "x"}], "nodeName": "x"}}
    body = (await api.merge(f"{POD}/ephemeralcontainers", patch)).body
    assert (body["spec"]["ephemeralContainers"][0]["name"], "nodeName" in body["spec"]) == ("debug", False)


class Meddler:
    """Admission during which somebody else writes."""

    def __init__(self, sandbox, times):
        self.sandbox, self.times, self.calls = sandbox, times, 0

    async def mutate(self, attempt, warn):
        return attempt.object

    async def validate(self, attempt, warn):
        self.calls += 1
        if self.calls <= self.times:
            self.sandbox.replace(
                {**self.sandbox.get("ConfigMap", "settings", "default"), "data": {"n": str(self.calls)}}
            )


async def test_patch_is_made_again_on_what_came_between(api, sandbox, config_map):
    sandbox.create(config_map())
    sandbox._cluster.admission = Meddler(sandbox, 2)
    answer = await api.merge(CONFIG_MAP, {"data": {"a": "1"}})
    assert answer.body["data"] == {"n": "2", "a": "1"}
    assert sandbox._cluster.admission.calls == 3


async def test_patch_that_something_always_comes_between_is_409(api, sandbox, config_map):
    sandbox.create(config_map())
    sandbox._cluster.admission = Meddler(sandbox, 99)
    answer = await api.merge(CONFIG_MAP, {"data": {"a": "1"}})
    assert answer.code == 409


async def test_put_with_a_version_is_not_made_again(api, sandbox, config_map):
    made = sandbox.create(config_map())
    sandbox._cluster.admission = Meddler(sandbox, 1)
    answer = await api.put(CONFIG_MAP, {**made, "data": {"a": "1"}})
    assert answer.code == 409
