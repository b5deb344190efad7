"""Pods of any shape get findings or none, never a traceback."""

from hypothesis import given
from hypothesis import strategies as st

from policies.access import validate
from policies.rules.request import Request
from policies.rules.settings import Access, GPUAdmissionPolicy
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

SETTINGS = GPUAdmissionPolicy(access=Access(exempt_service_accounts=("x/y",)))
VIEW = ManifestsView(
    [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}, "data": {"A": 1}},
        *(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": name, "namespace": "n"},
                "spec": {"spec": {"devices": {"requests": requests}}},
            }
            for name, requests in {"a": [{"name": []}, {"exactly": []}, 1, {"firstAvailable": [0]}], "all": {}}.items()
        ),
        {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "c"}, "spec": {"mps": []}},
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": {}},
    ]
)
LEAVES = st.sampled_from(
    [
        None,
        True,
        0,
        1,
        1.5,
        "",
        "a",
        "all",
        "$(A)",
        "nvidia",
        "/dev",
        "dev/nvidia0",
        "NVIDIA_VISIBLE_DEVICES",
        "é\0\ud800",
    ]
)
KEYS = st.sampled_from(
    [
        *(
            "spec",
            "containers",
            "initContainers",
            "ephemeralContainers",
            "env",
            "envFrom",
            "name",
            "value",
            "valueFrom",
        ),
        *("volumes", "volumeMounts", "hostPath", "path", "subPath", "subPathExpr", "mountPath", "image", "prefix"),
        *("resources", "limits", "requests", "claims", "resourceClaims", "nvidia.com/gpu", "securityContext"),
        *("privileged", "capabilities", "add", "hostPID", "runtimeClassName", "configMapRef", "secretRef"),
        *("serviceAccountName", "restartPolicy", "configMapKeyRef", "request", "resourceClaimTemplateName"),
        *("exactly", "firstAvailable", "deviceClassName"),
    ]
)
JSON = st.recursive(
    LEAVES, lambda parts: st.lists(parts, max_size=3) | st.dictionaries(KEYS, parts, max_size=4), max_leaves=12
)


def put(kind):
    return st.lists(st.dictionaries(KEYS, JSON, max_size=5) | JSON, max_size=3) | JSON


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": put("containers"),
        "initContainers": put("initContainers"),
        "ephemeralContainers": put("ephemeralContainers"),
        "volumes": put("volumes"),
        "resourceClaims": JSON,
        "runtimeClassName": JSON,
        "serviceAccountName": JSON,
        "hostPID": JSON,
    },
)
REQUESTS = st.sampled_from([("CREATE", ""), ("UPDATE", "ephemeralcontainers")])


@given(SPECS | JSON, SPECS | JSON, JSON, REQUESTS)
def test_any_pod_gets_an_answer(spec, old, annotations, asked):
    operation, subresource = asked
    annotations = {"nvidia.cdi.k8s.io/pod": annotations}
    request = Request(
        {"metadata": {"annotations": annotations}, "spec": spec},
        old_object={"spec": old},
        operation=operation,
        subresource=subresource,
        namespace="n",
    )
    assert all(plain_text(finding) for finding in validate(request, VIEW, SETTINGS))


@given(JSON, JSON)
def test_any_object_gets_an_answer(document, old):
    request = Request(document, old_object=old, namespace="n")
    assert all(plain_text(finding) for finding in validate(request, VIEW, SETTINGS))
