import asyncio
import io
import re

import aiohttp
import pytest

from webhook.sandbox.statuses import User

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CONTAINER = {"name": "main", "image": "cuda"}


async def test_create_fills_in_what_only_the_server_knows(api, config_map):
    answer = await api.post(CONFIG_MAPS, config_map(data={"a": "1"}))
    metadata = answer.body["metadata"]
    assert answer.code == 201
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata.pop("uid"))
    assert metadata == {
        "name": "settings",
        "namespace": "default",
        "creationTimestamp": "2026-03-01T12:00:00Z",
        "resourceVersion": "5",
    }


async def test_create_without_namespace_takes_that_of_the_path(api):
    answer = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (answer.body["kind"], answer.body["metadata"]["namespace"]) == ("ConfigMap", "default")


async def test_create_makes_a_name_of_five_characters(api, config_map):
    document = config_map()
    document["metadata"] = {"generateName": "settings-"}
    answer = await api.post(CONFIG_MAPS, document)
    assert re.fullmatch(r"settings-[bcdfghjklmnpqrstvwxz2456789]{5}", answer.body["metadata"]["name"])


async def test_long_generate_name_is_cut_for_a_label(api, config_map):
    document = config_map()
    document["metadata"] = {"generateName": "a" * 80}
    answer = await api.post(CONFIG_MAPS, document)
    assert len(answer.body["metadata"]["name"]) == 63


async def test_name_that_is_taken_is_409(api, config_map):
    await api.post(CONFIG_MAPS, config_map())
    answer = await api.post(CONFIG_MAPS, config_map())
    assert answer.code == 409
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "settings" already exists',
        "reason": "AlreadyExists",
        "details": {"name": "settings", "kind": "configmaps"},
        "code": 409,
    }


async def test_namespace_that_does_not_exist_is_404(api, config_map):
    answer = await api.post("/api/v1/namespaces/lost/configmaps", config_map(namespace="lost"))
    assert (answer.code, answer.message) == (404, 'namespaces "lost" not found')


async def test_namespace_other_than_the_path_is_400(api, config_map):
    answer = await api.post(CONFIG_MAPS, config_map(namespace="kube-system"))
    assert (answer.code, answer.message) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


async def test_object_without_name_is_422(api):
    answer = await api.post(CONFIG_MAPS, {"metadata": {}})
    assert (answer.code, answer.message) == (
        422,
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    )
    assert answer.body["details"]["causes"] == [
        {
            "reason": "FieldValueRequired",
            "message": "Required value: name or generateName is required",
            "field": "metadata.name",
        }
    ]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "the object provided is unrecognized (must be of type ConfigMap): it is no JSON object"),
        ({"kind": "Pod"}, 'Pod in version "v1" cannot be handled as a ConfigMap'),
        ({"apiVersion": "v2"}, "the API version in the data (v2) does not match the expected API version (v1)"),
        ({"metadata": []}, 'ConfigMap in version "v1" cannot be handled as a ConfigMap: metadata is no JSON object'),
        (
            {"metadata": {"labels": {"a": 1}}},
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: metadata.labels must be a map of strings',
        ),
        (
            {"metadata": {"name": 1}},
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: metadata.name must be a string',
        ),
        (
            {"metadata": {"ownerReferences": [1]}},
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: metadata.ownerReferences must be a list of objects',
        ),
    ],
)
async def test_what_is_no_such_object_is_400(api, document, message):
    answer = await api.post(CONFIG_MAPS, document)
    assert (answer.code, answer.body["reason"], answer.message) == (400, "BadRequest", message)


async def test_label_that_cannot_be_is_422(api, config_map):
    answer = await api.post(CONFIG_MAPS, config_map(labels={"a": "b c"}))
    assert answer.code == 422
    assert answer.message.startswith('ConfigMap "settings" is invalid: metadata.labels: Invalid value: "b c": a valid')


async def test_resource_version_at_creation_is_refused(api, config_map):
    answer = await api.post(CONFIG_MAPS, config_map(resourceVersion="1"))
    assert (answer.code, answer.message) == (500, "resourceVersion should not be set on objects to be created")


async def test_dry_run_answers_and_stores_nothing(api, sandbox, config_map):
    answer = await api.post(CONFIG_MAPS, config_map(), dryRun="All")
    assert answer.code == 201
    assert answer.body["metadata"]["uid"]
    assert sandbox.objects("ConfigMap") == []


async def test_dry_run_of_another_kind_is_422(api, config_map):
    answer = await api.post(CONFIG_MAPS, config_map(), dryRun="Some")
    assert (
        answer.message
        == 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"'
    )


async def test_status_sent_at_creation_is_not_taken(api, pod):
    answer = await api.post(PODS, {**pod(), "status": {"phase": "Running"}})
    assert answer.body["status"] == {"phase": "Pending"}


async def test_node_keeps_the_status_it_registers_with(api):
    node = {"metadata": {"name": "gpu-1"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    answer = await api.post("/api/v1/nodes", node)
    assert answer.body["status"] == {"capacity": {"nvidia.com/gpu": "8"}}


async def test_namespace_carries_its_name_as_a_label(api):
    answer = await api.post(
        "/api/v1/namespaces", {"metadata": {"name": "team", "labels": {"kubernetes.io/metadata.name": "x"}}}
    )
    assert answer.body["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    assert answer.body["status"] == {"phase": "Active"}


class Recorder:
    """Admission that writes down what it is asked about, and adds a label."""

    def __init__(self):
        self.mutated, self.validated = [], []

    async def mutate(self, attempt, warn):
        self.mutated.append(attempt)
        warn("look out")
        metadata = {**attempt.object["metadata"], "labels": {"seen": "yes"}}
        return {**attempt.object, "metadata": metadata}

    async def validate(self, attempt, warn):
        self.validated.append(attempt)


@pytest.fixture
def recorder(sandbox):
    sandbox._cluster.admission = Recorder()
    return sandbox._cluster.admission


async def test_mutating_admission_sees_no_generated_name_and_no_uid(api, recorder):
    await api.post(PODS, {"metadata": {"generateName": "job-", "uid": "forged"}, "spec": {"containers": []}})
    (attempt,) = recorder.mutated
    assert (attempt.operation, attempt.resource.kind, attempt.namespace, attempt.name) == (
        "CREATE",
        "Pod",
        "default",
        "",
    )
    assert "uid" not in attempt.object["metadata"]
    assert "name" not in attempt.object["metadata"]


async def test_validating_admission_sees_what_is_stored(api, sandbox, recorder):
    answer = await api.post(PODS, {"metadata": {"generateName": "job-"}, "spec": {"containers": [CONTAINER]}})
    (attempt,) = recorder.validated
    assert attempt.name == answer.body["metadata"]["name"]
    assert attempt.object["metadata"]["uid"] == answer.body["metadata"]["uid"]
    assert sandbox.objects("Pod")[0]["metadata"]["labels"] == {"seen": "yes"}


async def test_admission_hears_who_asks_and_how(api, recorder, pod):
    headers = {"Authorization": "Bearer system:serviceaccount:team:builder,extra"}
    await api("POST", PODS, pod(), params={"dryRun": "All", "fieldManager": "me"}, headers=headers)
    (attempt,) = recorder.mutated
    groups = ("extra", "system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    assert attempt.user == User("system:serviceaccount:team:builder", groups)
    assert attempt.dry_run
    assert attempt.options == {
        "kind": "CreateOptions",
        "apiVersion": "meta.k8s.io/v1",
        "fieldManager": "me",
        "dryRun": ["All"],
    }


async def test_warnings_are_headers(api, recorder, pod):
    answer = await api.post(PODS, pod())
    assert answer.headers.getall("Warning") == ['299 - "look out"']


async def test_warnings_stand_beside_a_refusal(api, recorder, pod):
    await api.post(PODS, pod())
    answer = await api.post(PODS, pod())
    assert (answer.code, answer.headers.getall("Warning")) == (409, ['299 - "look out"'])


async def test_of_two_creations_at_once_one_wins(sandbox, api, config_map):
    answers = await asyncio.gather(*(api.post(CONFIG_MAPS, config_map()) for _ in range(4)))
    assert sorted(answer.code for answer in answers) == [201, 409, 409, 409]


async def test_body_of_more_than_3_mib_is_413(api):
    answer = await api("POST", CONFIG_MAPS, data=io.BytesIO(b" " * (3 * 1024 * 1024 + 1)))
    assert (answer.code, answer.message) == (413, "Request entity too large: limit is 3145728")


async def test_body_that_is_no_json_is_400(api):
    answer = await api("POST", CONFIG_MAPS, data=b"{")
    assert answer.code == 400
    assert answer.message.startswith("couldn't get version/kind; json parse error: The body is not valid JSON: ")


async def test_body_in_yaml_is_415(api):
    answer = await api("POST", CONFIG_MAPS, data=b"a: b", content_type="application/yaml")
    assert (answer.code, answer.body["reason"]) == (415, "UnsupportedMediaType")


async def test_token_of_another_scheme_is_401(api):
    answer = await api("GET", CONFIG_MAPS, headers={"Authorization": "Basic eA=="})
    assert (answer.code, answer.body["reason"]) == (401, "Unauthorized")


async def test_two_sandboxes_of_one_seed_make_the_same_names(sandbox):
    from webhook.sandbox.server import Sandbox

    uids = [[item["metadata"]["uid"] for item in server.objects("Namespace")] for server in (sandbox, Sandbox(seed=1))]
    assert uids[0] == uids[1]


async def test_server_that_is_started_again_serves_what_it_had(sandbox, config_map):
    sandbox.create(config_map())
    await sandbox.stop()
    await sandbox.start()
    async with aiohttp.ClientSession(sandbox.url) as session, session.get(f"{CONFIG_MAPS}/settings") as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("metadata", "cause"),
    [
        (
            {"finalizers": ["foo"]},
            (
                'metadata.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name nor is it fully'
                " qualified"
            ),
        ),
        (
            {"annotations": {"a": "c" * 300_000}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            {"labels": {"a": "b" * 64}},
            f'metadata.labels: Invalid value: "{"b" * 64}": must be no more than 63 bytes',
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]},
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        ),
    ],
    ids=["finalizer", "annotations", "label", "owner"],
)
async def test_metadata_that_is_not_valid_is_422(api, config_map, metadata, cause):
    answer = await api.post("/api/v1/namespaces/default/configmaps", config_map("a", **metadata))
    # Kubernetes 1.36.2.
    assert (answer.code, answer.message) == (422, f'ConfigMap "a" is invalid: {cause}')


async def test_namespace_has_no_dots_in_its_name(api):
    answer = await api.post("/api/v1/namespaces", {"metadata": {"name": "a.b"}})
    assert answer.message == ('Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots')


async def test_role_binding_says_of_which_group_its_role_is(api):
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    subjects = [{"kind": "User", "name": "a"}, {"kind": "ServiceAccount", "name": "b", "namespace": "c"}]
    role = {"kind": "Role", "name": "r"}
    body = (await api.post(path, {"metadata": {"name": "b"}, "roleRef": role, "subjects": subjects})).body
    group = "rbac.authorization.k8s.io"
    assert body["roleRef"] == {**role, "apiGroup": group}
    assert body["subjects"] == [{**subjects[0], "apiGroup": group}, subjects[1]]
