import pytest

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUOTAS = "/apis/example.com/v1/namespaces/default/gpuquotas"


@pytest.fixture
def definition():
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["model"],
                "properties": {
                    "model": {"type": "string", "enum": ["a100", "h100"]},
                    "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                    "gpus": {"type": "integer", "minimum": 0, "maximum": 8},
                    "share": {"x-kubernetes-int-or-string": True},
                    "list": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                },
            },
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    }
    version = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gpuquotas.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "gpuquotas", "kind": "GPUQuota", "shortNames": ["gq"]},
            "versions": [{**version, "name": "v1"}, {**version, "name": "v1beta1", "storage": False}],
        },
    }


def quota(name="gpu", **spec):
    return {
        "apiVersion": "example.com/v1",
        "kind": "GPUQuota",
        "metadata": {"name": name},
        "spec": {"model": "h100", **spec},
    }


async def test_kind_is_served_once_it_is_defined(api, definition):
    assert (await api.get(QUOTAS)).code == 404
    await api.post(CRDS, definition)
    assert (await api.post(QUOTAS, quota())).code == 201


async def test_definition_is_established_at_once(api, definition):
    body = (await api.post(CRDS, definition)).body
    conditions = {condition["type"]: condition["status"] for condition in body["status"]["conditions"]}
    assert (conditions, body["status"]["storedVersions"]) == ({"NamesAccepted": "True", "Established": "True"}, ["v1"])
    assert body["spec"]["names"]["listKind"] == "GPUQuotaList"


async def test_every_version_shows_the_same_object(api, definition):
    await api.post(CRDS, definition)
    made = (await api.post(QUOTAS, quota())).body
    answer = await api.get("/apis/example.com/v1beta1/namespaces/default/gpuquotas/gpu")
    assert answer.body == {**made, "apiVersion": "example.com/v1beta1"}


async def test_items_of_custom_kinds_say_their_kind(api, definition):
    await api.post(CRDS, definition)
    await api.post(QUOTAS, quota())
    (item,) = (await api.get(QUOTAS)).body["items"]
    assert (item["kind"], item["apiVersion"]) == ("GPUQuota", "example.com/v1")


async def test_status_is_a_subresource_where_declared(api, definition):
    await api.post(CRDS, definition)
    await api.post(QUOTAS, {**quota(), "status": {"ready": True}})
    patch = {"status": {"ready": True}, "spec": {"gpus": 1}, "metadata": {"labels": {"a": "b"}}}
    body = (await api.merge(f"{QUOTAS}/gpu/status", patch)).body
    assert (body["status"], body["spec"], body["metadata"]["generation"]) == ({"ready": True}, {"model": "h100"}, 1)
    assert "labels" not in body["metadata"]


async def test_without_declaration_there_is_no_status_subresource(api, definition):
    for version in definition["spec"]["versions"]:
        del version["subresources"]
    await api.post(CRDS, definition)
    created = await api.post(QUOTAS, {**quota(), "status": {"ready": True}})
    assert created.body["status"] == {"ready": True}
    assert (await api.get(f"{QUOTAS}/gpu/status")).code == 404


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"model": "b200"}, 'spec.model: Unsupported value: "b200": supported values: "a100", "h100"'),
        ({"name": "H1"}, "spec.name: Invalid value: \"H1\": spec.name in body should match '^[a-z]+$'"),
        ({"name": "abcdef"}, "spec.name: Too long: may not be more than 5 bytes"),
        ({"list": ["a", "b", "c"]}, "spec.list: Too many: 3: must have at most 2 items"),
        ({"gpus": -1}, "spec.gpus: Invalid value: -1: spec.gpus in body should be greater than or equal to 0"),
        ({"gpus": "1"}, 'spec.gpus: Invalid value: "string": spec.gpus in body must be of type integer: "string"'),
        (
            {"share": 0.5},
            'spec.share: Invalid value: "number": spec.share in body must be of type integer,string: "number"',
        ),
        (
            {"list": ["a", 1]},
            'spec.list[1]: Invalid value: "integer": spec.list[1] in body must be of type string: "integer"',
        ),
    ],
)
async def test_schema_is_checked(api, definition, spec, cause):
    await api.post(CRDS, definition)
    answer = await api.post(QUOTAS, {**quota(), "spec": {"model": "h100", **spec}})
    assert (answer.code, answer.message) == (422, f'GPUQuota.example.com "gpu" is invalid: {cause}')


async def test_required_field_is_requested(api, definition):
    await api.post(CRDS, definition)
    answer = await api.post(QUOTAS, {**quota(), "spec": {}})
    assert answer.message == 'GPUQuota.example.com "gpu" is invalid: spec.model: Required value'


async def test_update_without_version_is_refused(api, definition):
    await api.post(CRDS, definition)
    await api.post(QUOTAS, quota())
    answer = await api.put(f"{QUOTAS}/gpu", quota(gpus=1))
    assert answer.message == (
        'gpuquotas.example.com "gpu" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an'
        " update"
    )


async def test_custom_resources_go_with_their_definition(api, sandbox, definition):
    await api.post(CRDS, definition)
    await api.post(QUOTAS, quota())
    await api.delete(f"{CRDS}/gpuquotas.example.com")
    assert (await api.get(QUOTAS)).code == 404
    await api.post(CRDS, definition)
    assert (await api.get(QUOTAS)).body["items"] == []


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"group": None}, "spec.group: Required value"),
        ({"versions": []}, "spec.versions: Required value: at least one version, each with a name"),
        (
            {"group": "other.com"},
            'metadata.name: Invalid value: "gpuquotas.example.com": must be spec.names.plural+"."+spec.group',
        ),
        (
            {"scope": "Everywhere"},
            'spec.scope: Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"',
        ),
    ],
)
async def test_definition_that_cannot_be_served_is_422(api, definition, change, cause):
    answer = await api.post(CRDS, {**definition, "spec": {**definition["spec"], **change}})
    assert answer.message == (
        f'CustomResourceDefinition.apiextensions.k8s.io "gpuquotas.example.com" is invalid: {cause}'
    )


async def test_version_that_is_no_longer_served_is_404(api, definition):
    await api.post(CRDS, definition)
    versions = definition["spec"]["versions"]
    versions[1]["served"] = False
    await api.merge(f"{CRDS}/gpuquotas.example.com", {"spec": {"versions": versions}})
    assert (await api.get("/apis/example.com/v1beta1/gpuquotas")).code == 404
