import asyncio
import base64
import ssl
from datetime import UTC, datetime

import aiohttp
import pytest

from certs import issue_serving, make_authority
from policies.devices.device_taint_rules import TAINT_RULE_VERSIONS
from testbed import libyaml
from webhook.cluster.resources import RESOURCES
from webhook.sandbox.kinds import Request
from webhook.sandbox.server import Sandbox
from webhook.sandbox.statuses import Refused

SUBJECT_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


async def test_version_is_reported(api):
    assert (await api.get("/version")).body == {
        "major": "1",
        "minor": "36",
        "gitVersion": "v1.36.0+sandbox",
        "platform": "linux/amd64",
    }


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health_is_reported(api, path):
    async with api.session.get(path) as response:
        assert (response.status, await response.text()) == (200, "ok")


async def test_discovery_of_the_core_group(api):
    body = (await api.get("/api/v1")).body
    resources = {resource["name"]: resource for resource in body["resources"]}
    assert resources["pods"] == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
    }
    assert {"pods/status", "pods/binding", "pods/eviction", "namespaces/finalize", "nodes/status"} < resources.keys()


async def test_discovery_of_a_group(api):
    body = (await api.get("/apis/resource.k8s.io")).body
    assert (body["kind"], body["preferredVersion"]["groupVersion"]) == ("APIGroup", "resource.k8s.io/v1")


async def test_discovery_lists_each_group_once(api):
    names = [group["name"] for group in (await api.get("/apis")).body["groups"]]
    assert len(names) == len(set(names))
    assert {"apps", "batch", "resource.k8s.io", "apiextensions.k8s.io"} <= set(names)


async def test_openapi_says_that_fields_are_validated_here(api):
    index = (await api.get("/openapi/v3")).body["paths"]
    document = (await api.get(index["api/v1"]["serverRelativeURL"])).body
    patch = document["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]["patch"]
    assert [parameter["name"] for parameter in patch["parameters"]] == ["fieldValidation"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/openapi/v3/api/v2",
        "/foo",
        "/api/v2",
        "/api/v1/things",
        "/apis/example.com",
        "/apis/example.com/v1/things",
        "/api/v1/pods/x",
        "/api/v1/namespaces/default/pods/x/y/z",
        "/api/v1/namespaces/default/configmaps/x/status",
        "/api/v1/namespaces/default/nodes",
    ],
)
async def test_path_of_nothing_is_404(api, path):
    answer = await api.get(path)
    assert (answer.code, answer.message) == (404, "the server could not find the requested resource")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/pods"),
        ("PUT", "/api/v1/nodes"),
        ("POST", "/api/v1/namespaces/default/pods/x/status"),
        ("GET", "/api/v1/namespaces/default/pods/x/binding"),
        ("GET", SUBJECT_ACCESS),
        ("OPTIONS", "/api/v1/nodes"),
    ],
)
async def test_verb_that_is_not_taken_is_405(api, method, path):
    answer = await api(method, path)
    assert (answer.code, answer.message) == (405, "the server does not allow this method on the requested resource")


BUILT_IN = [
    name
    for name, resource in RESOURCES.items()
    if ("." not in resource.group or resource.group.endswith(".k8s.io"))
    and (name not in ("DeviceTaintRule", "PodGroup") and resource.group != "sparkoperator.k8s.io")
]
"""DeviceTaintRules and PodGroups are served only in some versions or where their feature gate is on; the Spark operator is not
part of Kubernetes."""


@pytest.mark.parametrize("kind", BUILT_IN)
async def test_built_in_kinds_are_served(sandbox, kind):
    assert sandbox._cluster.kinds.find(kind).resource == RESOURCES[kind]


@pytest.mark.parametrize(
    ("version", "gates", "served"),
    [
        ("1.36.2", (), []),
        ("1.36.2", ("DRADeviceTaintRules",), ["v1beta2", "v1alpha3"]),
        ("1.37.0", (), ["v1"]),
    ],
)
async def test_taint_rules_are_served_in_the_versions_of_the_release(version, gates, served):
    kinds = Sandbox(seed=1, feature_gates=gates, version=version)._cluster.kinds
    found = [each for each in TAINT_RULE_VERSIONS if kinds.at("resource.k8s.io", each, "devicetaintrules")]
    assert found == served


async def test_requests_are_recorded(api, sandbox, config_map):
    headers = {"Authorization": "Bearer gpu-admission"}
    path = "/api/v1/namespaces/default/configmaps"
    await api("POST", path, config_map(), headers=headers)
    await api("GET", path, params={"watch": "1", "timeoutSeconds": "1"}, headers=headers, data=b"")
    await api.merge("/api/v1/nodes/x/status", {})
    await api.delete(path)
    core = {"group": "", "subresource": "", "namespace": "default", "name": ""}
    maps = {**core, "resource": "configmaps"}
    assert list(sandbox.requests) == [
        Request(user="gpu-admission", verb="create", **maps),
        Request(user="gpu-admission", verb="watch", **maps),
        Request("system:admin", "patch", "", "nodes", "status", "", "x"),
        Request(user="system:admin", verb="deletecollection", **maps),
    ]


@pytest.mark.parametrize("selector", ["metadata.name=dcgm", "type!=Opaque,metadata.name==dcgm"])
async def test_list_of_one_object_is_recorded_with_its_name(api, sandbox, selector):
    await api("GET", "/api/v1/namespaces/default/secrets", params={"fieldSelector": selector})
    (request,) = sandbox.requests
    assert (request.verb, request.name) == ("list", "dcgm")


async def test_access_is_answered_as_reported():
    sandbox = Sandbox(allows=lambda spec: spec["user"] == "alice")
    url = await sandbox.start()
    try:
        async with aiohttp.ClientSession(url) as session:
            answers = []
            for user in ("alice", "bob"):
                async with session.post(SUBJECT_ACCESS, json={"spec": {"user": user}}) as response:
                    answers.append((await response.json())["status"]["allowed"])
        assert answers == [True, False]
    finally:
        await sandbox.stop()


async def test_self_subject_access_review_uses_the_callers_name(sandbox, api):
    seen = []
    sandbox._handlers.allows = lambda spec: bool(seen.append(spec["user"])) or True
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await api("POST", path, {"spec": {}}, headers={"Authorization": "Bearer alice"})
    assert (answer.body["status"], seen) == ({"allowed": True}, ["alice"])


async def test_token_is_the_user(api):
    review = {"spec": {"token": "system:serviceaccount:team:builder"}}
    answer = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert answer.body["status"] == {
        "authenticated": True,
        "user": {
            "username": "system:serviceaccount:team:builder",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"],
        },
    }


async def test_no_token_is_no_user(api):
    answer = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {}})
    assert answer.body["status"] == {"user": {}, "error": "invalid bearer token"}


async def test_tls_is_verified_with_the_authority_of_the_kubeconfig(tmp_path):
    now = datetime.now(UTC)
    authority = make_authority("sandbox", now=now)
    pair = issue_serving(authority, ["127.0.0.1"], now=now)
    sandbox = Sandbox()
    url = await sandbox.start(tls=pair, authority=authority.certificate_pem)
    try:
        config = libyaml.load(sandbox.kubeconfig("alice", "admins"))
        cluster = config["clusters"][0]["cluster"]
        assert cluster["server"] == url
        pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=pem)
        token = config["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            aiohttp.ClientSession(url, headers=headers) as session,
            session.get("/version", ssl=context) as response,
        ):
            assert response.status == 200
        assert token == "alice,admins"
    finally:
        await sandbox.stop()


async def test_mistake_of_the_server_is_500(api, sandbox, config_map, caplog):
    class Broken:
        async def mutate(self, attempt, warn):
            raise ZeroDivisionError("oh")

    sandbox._cluster.admission = Broken()
    answer = await api.post("/api/v1/namespaces/default/configmaps", config_map())
    assert (answer.code, answer.message) == (500, "Internal error occurred: ZeroDivisionError: oh")
    assert "POST /api/v1/namespaces/default/configmaps failed" in caplog.text


def test_object_put_in_keeps_status_and_uid(pod):
    made = Sandbox().create({**pod(uid="u"), "status": {"phase": "Running"}})
    assert (made["metadata"]["uid"], made["status"]) == ("u", {"phase": "Running"})


def test_object_put_in_twice_is_refused(pod):
    sandbox = Sandbox()
    sandbox.create(pod())
    with pytest.raises(Refused, match='pods "job" already exists'):
        sandbox.create(pod())


def test_kind_that_is_not_served_cannot_be_put_in():
    with pytest.raises(LookupError, match=r"the sandbox serves no Thing of example.com/v1"):
        Sandbox().create({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}})


def test_what_is_not_there_can_neither_be_replaced_nor_removed(config_map):
    sandbox = Sandbox()
    with pytest.raises(LookupError, match="configmaps 'settings' is not there to be replaced"):
        sandbox.replace(config_map())
    with pytest.raises(LookupError, match="configmaps 'settings' is not there to be removed"):
        sandbox.remove("ConfigMap", "settings", "default")


def test_objects_given_out_are_copies(config_map):
    sandbox = Sandbox()
    sandbox.create(config_map())["metadata"]["name"] = "changed"
    sandbox.objects("ConfigMap")[0]["metadata"]["name"] = "changed"
    assert sandbox.get("ConfigMap", "settings", "default")["metadata"]["name"] == "settings"


async def test_end_of_the_maker_of_claims_is_logged(sandbox, pod, caplog):
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "empty", "namespace": "default"},
    }
    sandbox.create(template)
    document = pod()
    document["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "empty"}]
    sandbox.create(document)
    await asyncio.wait([sandbox._controller])
    await asyncio.sleep(0)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("CRITICAL", "the claim controller has ended because of a defect")
    ]
    assert caplog.records[0].exc_info[0] is KeyError


async def test_object_that_is_not_valid_cannot_be_put_in(sandbox, config_map):
    with pytest.raises(Refused) as refused:
        sandbox.create(config_map("Settings"))
    assert refused.value.status["details"]["causes"][0]["field"] == "metadata.name"
