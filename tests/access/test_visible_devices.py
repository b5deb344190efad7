"""NVIDIA_VISIBLE_DEVICES in `env`, with and without a GPU request."""

import pytest

ASK = "request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void"
REMOVE = "remove the variable"
UNKNOWN = "its value is not known here, and unless it is void or none it gets GPUs that others were given"
GPU = {"limits": {"nvidia.com/gpu": "1"}}
H100_CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: h100}
spec:
  extendedResourceName: example.com/h100
  selectors:
  - cel: {expression: device.driver == 'gpu.nvidia.com'}
"""
OTHER_CLASS = H100_CLASS.replace("gpu.nvidia.com", "fast.example.com")
ANY_CLASS = H100_CLASS.replace("device.driver == 'gpu.nvidia.com'", "'true'")
TEMPLATE = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: team-a}
spec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: h100}}]}}}
"""
BY_CLASS = {
    "claim": {"claims": [{"name": "gpu"}]},
    "implicit name": {"limits": {"deviceclass.resource.kubernetes.io/h100": 1}},
    "extended resource": {"limits": {"example.com/h100": 1}},
}


def container(*env, name="train", **fields):
    return {"name": name, "image": "ubuntu", "env": list(env), **fields}


def visible(value):
    return {"name": "NVIDIA_VISIBLE_DEVICES", "value": value}


def visible_from(source):
    return {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": source}


def test_every_gpu_without_a_request_is_reported(findings_of):
    assert findings_of({"containers": [container({"name": "A", "value": "b"}, visible("all"))]}) == [
        (
            'GA601 deny spec.containers[0].env[1].value: NVIDIA_VISIBLE_DEVICES is "all" in container "train", which requests '
            f"no GPU: NVIDIA's container runtime gives it every GPU of the node; {ASK}"
        )
    ]


@pytest.mark.parametrize("value", ["0", "0,1", "GPU-8f4b2c1d", "MIG-5", "nvidia.com/gpu=0", "ALL", "7"])
def test_some_gpus_without_a_request_are_reported(findings_of, value):
    assert findings_of({"containers": [container(visible(value))]}) == [
        (
            f'GA601 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "{value}" in container "train", which '
            f"requests no GPU: NVIDIA's container runtime gives it these GPUs of the node, which other pods may have; {ASK}"
        )
    ]


@pytest.mark.parametrize("value", ["void", "none", "", None])
def test_no_gpu_is_nothing(findings_of, value):
    assert (
        findings_of({"containers": [container(visible(value)), container(visible(value), name="b", resources=GPU)]})
        == []
    )


@pytest.mark.parametrize("value", [" void ", "void,all", "all,void", "0,\tvoid", "none,all", "0,none", " ", ",", " , "])
def test_list_that_gives_no_gpu_is_nothing(findings_of, value):
    assert (
        findings_of({"containers": [container(visible(value)), container(visible(value), name="b", resources=GPU)]})
        == []
    )


@pytest.mark.parametrize("value", [" all", "all\n", "all,none", "0,all", "0, all ,none", "\x1cvoid,all", "\u2003all"])
def test_list_that_gives_every_gpu_is_reported(found, value):
    (finding,) = found({"containers": [container(visible(value))]})
    assert finding.message.endswith("NVIDIA's container runtime gives it every GPU of the node")


@pytest.mark.parametrize("value", ["Void", "0 void", "NONE", "0,,1", "\x1cvoid"])
def test_list_of_other_names_is_reported(found, value):
    (finding,) = found({"containers": [container(visible(value))]})
    assert finding.message.endswith(
        "NVIDIA's container runtime gives it these GPUs of the node, which other pods may have"
    )


@pytest.mark.parametrize("name", ["nvidia_visible_devices", "NVIDIA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"])
def test_another_variable_is_nothing(findings_of, name):
    assert findings_of({"containers": [container({"name": name, "value": "all"})]}) == []


@pytest.mark.parametrize(
    ("source", "origin"),
    [
        ({"configMapKeyRef": {"name": "c", "key": "k"}}, "from a ConfigMap"),
        ({"secretKeyRef": {"name": "s", "key": "k", "optional": True}}, "from a Secret"),
        ({"fieldRef": {"fieldPath": "metadata.annotations['gpus']"}}, "from a field of the pod"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "from an amount of resources"),
        ({"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}, "from a file"),
        ({"laterRef": {}}, "from elsewhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_value_from_elsewhere_is_reported_as_unknown(findings_of, source, origin):
    assert findings_of({"containers": [container(visible_from(source))]}) == [
        (
            f"GA601 deny spec.containers[0].env[0].valueFrom: NVIDIA_VISIBLE_DEVICES comes {origin} in container "
            f'"train", which requests no GPU: {UNKNOWN}; {ASK}'
        )
    ]


def test_value_from_variables_that_are_not_known_is_reported_as_unknown(findings_of):
    assert findings_of({"containers": [container(visible("$(GPUS)"))]}) == [
        (
            "GA601 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES comes from other variables in container "
            f'"train", which requests no GPU: {UNKNOWN}; {ASK}'
        )
    ]


def test_own_value_beside_a_request_is_reported(findings_of):
    assert findings_of({"containers": [container(visible("all"), resources=GPU)]}) == [
        (
            'GA602 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in container "train", and wins '
            f"over the device plugin's: NVIDIA's container runtime gives it every GPU of the node; {REMOVE}"
        )
    ]


def asking(how):
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}] if how == "claim" else []
    return {"containers": [container(visible("all"), resources=BY_CLASS[how])], "resourceClaims": claims}


@pytest.mark.parametrize("how", ["implicit name", "extended resource"])
def test_own_value_beside_a_class_for_gpus_is_no_reason_to_refuse(findings_of, how):
    assert findings_of(asking(how), cluster=H100_CLASS + TEMPLATE) == [
        (
            'GA602 warn spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in container "train", whose '
            f"GPUs come from a claim: the variable has no effect; {REMOVE}"
        )
    ]


def test_own_value_beside_a_claim_is_refused(findings_of):
    assert findings_of(asking("claim"), cluster=H100_CLASS + TEMPLATE) == [
        (
            'GA602 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in container "train", whose '
            "claim can be replaced before it starts: NVIDIA's container runtime gives it every GPU of the node; "
            f"{REMOVE}"
        )
    ]


@pytest.mark.parametrize("how", BY_CLASS)
def test_own_value_beside_a_device_of_another_driver_is_refused(findings_of, how):
    assert findings_of(asking(how), cluster=OTHER_CLASS + TEMPLATE) == [
        (
            'GA601 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in container "train", which requests '
            f"no GPU: NVIDIA's container runtime gives it every GPU of the node; {ASK}"
        )
    ]


@pytest.mark.parametrize("how", BY_CLASS)
def test_own_value_beside_a_device_that_may_be_no_gpu_is_refused(findings_of, how):
    assert findings_of(asking(how), cluster=ANY_CLASS + TEMPLATE) == [
        (
            'GA602 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in container "train", whose '
            "request can give it a device that is no GPU: NVIDIA's container runtime gives it every GPU of the node; "
            f"{REMOVE}"
        )
    ]


@pytest.mark.parametrize(
    ("how", "cluster", "unseen"),
    [
        ("claim", "", 'ResourceClaimTemplate "one"'),
        ("claim", H100_CLASS, 'ResourceClaimTemplate "one"'),
        ("claim", TEMPLATE, 'DeviceClass "h100"'),
        ("implicit name", "", 'DeviceClass "h100"'),
        ("implicit name", H100_CLASS.replace("name: h100", "name: a100"), 'DeviceClass "h100"'),
    ],
)
def test_own_value_beside_a_request_that_cannot_be_judged_is_refused(findings_of, how, cluster, unseen):
    assert findings_of(asking(how), cluster=cluster) == [
        (
            'GA602 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in container "train", whose '
            f"request cannot be judged because {unseen} is missing or cannot be seen: NVIDIA's container runtime gives "
            f"it every GPU of the node; {REMOVE}"
        )
    ]


def test_own_value_beside_a_claim_that_names_no_object_is_refused(findings_of):
    spec = {**asking("claim"), "resourceClaims": [{"name": "gpu"}]}
    (said,) = findings_of(spec)
    assert said.startswith("GA602 deny ")
    assert 'in container "train", whose claim names no object: ' in said


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"])
@pytest.mark.parametrize("nodes", ["", "apiVersion: v1\nkind: NodeList\nitems: []\n---\n"], ids=["unknown", "none"])
def test_class_of_another_driver_under_a_name_of_the_device_plugin_is_refused(rules, found, resource, nodes):
    mapped = nodes + OTHER_CLASS.replace("example.com/h100", resource)
    spec = {"containers": [container(visible("all"), resources={"limits": {resource: 1}})]}
    (finding,) = found(spec, cluster=mapped)
    assert (finding.rule.id, finding.severity) == ("GA602", "deny")


@pytest.mark.parametrize(
    ("resources", "rule"),
    [
        ({"limits": {"nvidia.com/gpu": 1}}, "GA602"),
        ({"requests": {"nvidia.com/gpu": "1"}}, "GA602"),
        ({"limits": {"nvidia.com/gpu.shared": 2}}, "GA602"),
        ({"limits": {"nvidia.com/mig-1g.5gb": 1}}, "GA602"),
        ({"limits": {"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 1}}, "GA602"),
        ({"limits": {"deviceclass.resource.kubernetes.io/h100": 1}}, "GA602"),
        ({"limits": {"example.com/h100": 1}}, "GA602"),
        ({"limits": {"example.com/a100": 1}}, "GA601"),
        ({"claims": [{"name": "gpu"}]}, "GA602"),
        ({"claims": [{"name": "gpu", "request": "a"}]}, "GA602"),
        ({"claims": [{"name": "other"}]}, "GA601"),
        ({"limits": {"nvidia.com/gpu": 0}}, "GA601"),
        ({"limits": {"nvidia.com/gpu": "0"}, "requests": {"nvidia.com/gpu": "0"}}, "GA601"),
        ({"limits": {"amd.com/gpu": 1}}, "GA601"),
        ({"limits": {"nvidia.com/gpus": 1}}, "GA601"),
        ({"limits": {"cpu": 1}}, "GA601"),
        ({}, "GA601"),
    ],
    ids=str,
)
def test_request_is_a_resource_or_a_claim_of_the_pod(rules, resources, rule):
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    spec = {"containers": [container(visible("all"), resources=resources)], "resourceClaims": claims}
    assert rules(spec, cluster=H100_CLASS) == [rule]


def test_request_of_another_container_does_not_count(rules):
    assert rules({"containers": [container(resources=GPU, name="a"), container(visible("all"), name="b")]}) == ["GA601"]


@pytest.mark.parametrize(
    ("field", "fields", "title"),
    [
        ("initContainers", {}, "init container"),
        ("initContainers", {"restartPolicy": "Always"}, "sidecar"),
        ("ephemeralContainers", {}, "ephemeral container"),
    ],
)
def test_container_of_every_kind_counts(found, field, fields, title):
    spec = {"containers": [{"name": "main"}], field: [container(visible("all"), name="x", **fields)]}
    (finding,) = found(spec)
    assert str(finding.path) == f"spec.{field}[0].env[0].value"
    assert f'in {title} "x", which' in finding.message


def test_mode_is_warn_by_default(found):
    from policies.rules.settings import DEFAULTS

    (finding,) = found({"containers": [container(visible("all"))]}, settings=DEFAULTS)
    assert finding.severity == "warn"


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"nvidia.com/gpu": "1"}},
        {"annotations": {"gpu-admission.io/product": "H100*"}},
        {"labels": {"nvidia.com/gpu": "1", "nvidia.com/gpu.present": "true"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("value", ["all", "void"])
def test_request_in_an_annotation_or_label_changes_nothing(findings_of, metadata, value):
    spec = {"containers": [container(visible(value))]}
    assert findings_of(spec, metadata={"name": "p", **metadata}) == findings_of(spec)
