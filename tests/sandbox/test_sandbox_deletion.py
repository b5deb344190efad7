import pytest

from webhook.sandbox.statuses import Refused

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP = f"{CONFIG_MAPS}/settings"
PODS = "/api/v1/namespaces/default/pods"


def owned(document, *owners):
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            **{key: owner["metadata"][key] for key in ("name", "uid")},
        }
        for owner in owners
    ]
    return {**document, "metadata": {**document["metadata"], "ownerReferences": references}}


async def test_delete_answers_with_a_status(api, sandbox, config_map):
    uid = sandbox.create(config_map())["metadata"]["uid"]
    answer = await api.delete(CONFIG_MAP)
    assert answer.code == 200
    assert answer.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "settings", "kind": "configmaps", "uid": uid},
    }
    assert sandbox.objects("ConfigMap") == []


async def test_delete_of_a_pod_answers_with_the_pod(api, sandbox, pod):
    sandbox.create(pod())
    answer = await api.delete(f"{PODS}/job")
    assert (answer.body["kind"], sandbox.objects("Pod")) == ("Pod", [])


@pytest.mark.parametrize(
    ("preconditions", "why"),
    [
        (
            {"uid": "other"},
            (
                "the UID in the precondition (other) does not match the UID in record ({uid}). The object might have"
                " been deleted and then recreated"
            ),
        ),
        (
            {"resourceVersion": "1"},
            (
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (5). The"
                " object might have been modified"
            ),
        ),
    ],
    ids=["uid", "resourceVersion"],
)
async def test_delete_with_a_precondition_that_does_not_hold_is_409(api, sandbox, config_map, preconditions, why):
    uid = sandbox.create(config_map())["metadata"]["uid"]
    answer = await api.delete(CONFIG_MAP, {"preconditions": preconditions})
    assert answer.code == 409
    assert answer.message == f'Operation cannot be fulfilled on ConfigMap "settings": {why.format(uid=uid)}'


async def test_delete_with_preconditions_that_hold_deletes(api, sandbox, config_map):
    metadata = sandbox.create(config_map())["metadata"]
    preconditions = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    answer = await api.delete(CONFIG_MAP, {"preconditions": preconditions})
    assert (answer.code, sandbox.objects("ConfigMap")) == (200, [])


async def test_dry_run_of_a_delete_deletes_nothing(api, sandbox, config_map):
    sandbox.create(config_map())
    answer = await api.delete(CONFIG_MAP, dryRun="All")
    assert (answer.code, len(sandbox.objects("ConfigMap"))) == (200, 1)


async def test_object_with_a_finalizer_is_only_marked(api, sandbox, config_map):
    sandbox.create(config_map(finalizers=["example.com/wait"]))
    metadata = (await api.delete(CONFIG_MAP)).body["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-03-01T12:00:00Z", 0)


async def test_object_goes_with_its_last_finalizer(api, sandbox, config_map):
    sandbox.create(config_map(finalizers=["example.com/wait"]))
    await api.delete(CONFIG_MAP)
    answer = await api.merge(CONFIG_MAP, {"metadata": {"finalizers": None}})
    assert (answer.code, sandbox.objects("ConfigMap")) == (200, [])


async def test_no_finalizer_is_added_to_what_is_being_deleted(api, sandbox, config_map):
    sandbox.create(config_map(finalizers=["example.com/wait"]))
    await api.delete(CONFIG_MAP)
    answer = await api.merge(CONFIG_MAP, {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}})
    assert answer.message == (
        'ConfigMap "settings" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object'
        ' is being deleted, found new finalizers []string{"example.com/more"}'
    )


async def test_what_an_object_owned_goes_with_it(api, sandbox, config_map, pod):
    owner = sandbox.create(config_map())
    child = sandbox.create(owned(config_map("child"), owner))
    sandbox.create(owned(pod("grandchild"), child))
    await api.delete(CONFIG_MAP)
    assert (sandbox.objects("ConfigMap"), sandbox.objects("Pod")) == ([], [])


async def test_what_has_another_owner_stays(api, sandbox, config_map):
    owners = [sandbox.create(config_map(name)) for name in ("settings", "other")]
    sandbox.create(owned(config_map("child"), *owners))
    await api.delete(CONFIG_MAP)
    references = sandbox.get("ConfigMap", "child", "default")["metadata"]["ownerReferences"]
    assert [reference["name"] for reference in references] == ["other"]


async def test_orphans_stay_without_their_owner(api, sandbox, config_map):
    sandbox.create(owned(config_map("child"), sandbox.create(config_map())))
    await api.delete(CONFIG_MAP, propagationPolicy="Orphan")
    assert "ownerReferences" not in sandbox.get("ConfigMap", "child", "default")["metadata"]


async def test_what_names_an_owner_that_does_not_exist_goes(api, sandbox, config_map, pod):
    stranger = {**config_map("ghost"), "metadata": {"name": "ghost", "uid": "none"}}
    answer = await api.post(PODS, owned(pod(), stranger))
    assert (answer.code, sandbox.objects("Pod")) == (201, [])


async def test_owner_of_a_kind_that_is_not_served_counts_as_there(api, sandbox, pod):
    stranger = {"apiVersion": "example.com/v1", "kind": "Job", "metadata": {"name": "x", "uid": "none"}}
    await api.post(PODS, owned(pod(), stranger))
    assert len(sandbox.objects("Pod")) == 1


async def test_namespace_goes_with_all_that_is_in_it(api, sandbox, config_map):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    sandbox.create(config_map(namespace="team"))
    answer = await api.delete("/api/v1/namespaces/team")
    assert answer.body["status"]["phase"] == "Terminating"
    assert sandbox.get("Namespace", "team") is None
    assert sandbox.objects("ConfigMap") == []


async def test_namespace_waits_for_what_waits_in_it(api, sandbox, config_map):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    sandbox.create(config_map(namespace="team", finalizers=["example.com/wait"]))
    await api.delete("/api/v1/namespaces/team")
    assert sandbox.get("Namespace", "team")["status"]["phase"] == "Terminating"
    await api.merge("/api/v1/namespaces/team/configmaps/settings", {"metadata": {"finalizers": None}})
    assert sandbox.get("Namespace", "team") is None


async def test_nothing_comes_into_a_namespace_that_goes(api, sandbox, config_map):
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    sandbox.create(config_map(namespace="team", finalizers=["example.com/wait"]))
    await api.delete("/api/v1/namespaces/team")
    answer = await api.post("/api/v1/namespaces/team/configmaps", config_map("new", "team"))
    assert (answer.code, answer.message) == (
        403,
        'configmaps "new" is forbidden: unable to create new content in namespace team because it is being terminated',
    )


async def test_namespace_default_stays(api):
    answer = await api.delete("/api/v1/namespaces/default")
    assert (answer.code, answer.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


class Keeper:
    """Admission that lets nobody delete, and writes down who tried."""

    def __init__(self):
        self.attempts = []

    async def mutate(self, attempt, warn):
        return attempt.object

    async def validate(self, attempt, warn):
        self.attempts.append(attempt)
        if attempt.operation == "DELETE" and attempt.resource.kind == "ConfigMap":
            raise Refused({"kind": "Status", "message": "no", "code": 403})


async def test_refused_deletion_keeps_the_namespace_terminating(api, sandbox, config_map):
    sandbox._cluster.admission = Keeper()
    await api.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    sandbox.create(config_map(namespace="team"))
    await api.delete("/api/v1/namespaces/team")
    assert sandbox.get("Namespace", "team")["status"]["phase"] == "Terminating"
    attempt = sandbox._cluster.admission.attempts[-1]
    assert (attempt.user.name, attempt.name) == ("system:serviceaccount:kube-system:namespace-controller", "")


async def test_admission_of_a_delete_sees_the_old_object_only(api, sandbox, pod):
    sandbox._cluster.admission = Keeper()
    made = sandbox.create(pod())
    await api.delete(f"{PODS}/job", {"gracePeriodSeconds": 0})
    (attempt,) = sandbox._cluster.admission.attempts
    assert (attempt.operation, attempt.name, attempt.object, attempt.old_object) == ("DELETE", "job", None, made)
    assert attempt.options == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 0}


async def test_collection_is_deleted_by_selector(api, sandbox, config_map):
    sandbox.create(config_map("a", labels={"app": "x"}))
    sandbox.create(config_map("b"))
    answer = await api.delete(CONFIG_MAPS, labelSelector="app=x")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["a"]
    assert [item["metadata"]["name"] for item in sandbox.objects("ConfigMap")] == ["b"]


async def test_delete_with_a_body_that_is_no_object_is_400(api, sandbox, config_map):
    sandbox.create(config_map())
    answer = await api.delete(CONFIG_MAP, [1])
    assert answer.code == 400


async def test_name_of_what_is_being_deleted_is_taken(api, sandbox, config_map):
    sandbox.create(config_map(finalizers=["example.com/wait"]))
    await api.delete(CONFIG_MAP)
    answer = await api.post(CONFIG_MAPS, config_map())
    # Kubernetes 1.36.2.
    assert (answer.code, answer.message) == (409, 'object is being deleted: configmaps "settings" already exists')
