"""The exact text of refusals and warnings as the API server returns it."""

import pytest

from testbed import manifests


def denied(webhook, message):
    return f'admission webhook "{webhook}.gpu-admission.io" denied the request: {message}'


def test_condition_that_no_device_knows_is_refused(cluster):
    team = cluster.namespace(dra="enabled")
    answer = cluster.create(manifests.pod(team, nodeSelector={"nvidia.com/gpu.count": "8"}))
    assert (answer.code, answer.body["reason"]) == (403, "Forbidden")
    assert answer.message == denied(
        "convert-pods",
        "Remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, .memory or .family: nvidia.com/gpu.count "
        "counts the GPUs of the node; no device knows how many there are; spec.nodeSelector[nvidia.com/gpu.count] [GA307]",
    )


def test_refused_pod_leaves_no_template(cluster):
    team = cluster.namespace(dra="enabled")
    assert not cluster.create(manifests.pod(team, nodeSelector={"nvidia.com/gpu.count": "8"})).accepted
    assert cluster.list("ResourceClaimTemplate", team) == []


def test_part_of_a_gpu_is_refused(cluster):
    team = cluster.namespace(dra="enabled")
    answer = cluster.create(manifests.pod(team, gpus="0.5"))
    assert answer.message == denied(
        "convert-pods",
        "Request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb: 0.5 is not a whole number of "
        "devices; spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]",
    )


def test_product_that_is_spelled_as_a_label_is_warned_about(cluster):
    expression = 'device.attributes["gpu.nvidia.com"].productName == "NVIDIA-H100-80GB-HBM3"'
    answer = cluster.create(manifests.claim(cluster.namespace(), "h100", expression))
    assert answer.accepted
    assert " ".join(line.strip() for line in answer.warnings) == (
        'Write device.attributes["gpu.nvidia.com"].productName.replace(" ", "-") == "NVIDIA-H100-80GB-HBM3": '
        '"NVIDIA-H100-80GB-HBM3" is no productName that devices have: it is the label nvidia.com/gpu.product, which has '
        "dashes for blanks; spec.devices.requests[0].exactly.selectors[0].cel.expression [GA230]"
    )


def test_claim_that_does_not_compile_is_refused_by_the_api_server(real):
    expression = 'device.attribute["gpu.nvidia.com"].productName == "x"'
    answer = real.create(manifests.claim(real.namespace(), "misspelt", expression))
    (cause,) = answer.causes
    assert cause.startswith("spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value:")
    assert "undefined field 'attribute'" in cause


def test_cluster_policy_with_a_misspelt_value_is_refused_in_our_words(cluster):
    wrong = manifests.cluster_policy(driver={"kernelModuleType": "runcompiled"}, devicePlugin={"enabled": False})
    answer = cluster.create(wrong, dry_run=True)
    assert (answer.code, answer.body["reason"]) == (422, "Invalid")
    cause = (
        "Write kernelModuleType: auto, and usePrecompiled: false: Unsupported value: "
        '"runcompiled": supported values: "auto", "open", "proprietary"'
    )
    assert f"spec.driver.kernelModuleType: {cause} [GA101]" in answer.causes
    assert answer.message.startswith(denied("configuration", ""))
    assert f"{cause}; spec.driver.kernelModuleType [GA101]" in answer.message


def test_cluster_policy_that_gives_gpus_out_twice_is_refused(cluster):
    answer = cluster.create(manifests.cluster_policy(), dry_run=True)
    (cause,) = (cause for cause in answer.causes if cause.endswith("[GA145]"))
    assert cause.startswith("spec.devicePlugin.enabled: Write devicePlugin.enabled: false, or label nodes of DRA ")
    assert "hand out their GPUs by DRA (gpu.nvidia.com) already; two pods could" in cause


def test_device_plugin_config_map_that_shares_nothing_is_refused(cluster):
    document = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 1\n"
    config_map = manifests.config_map("gpu-operator", "time-slicing", {"any": document})
    config_map["metadata"]["labels"] = {"gpu-admission.io/config": "device-plugin"}
    answer = cluster.create(config_map, dry_run=True)
    path = "data.any.sharing.timeSlicing.resources[0].replicas"
    cause = (
        "Write 2 or more, or remove this entry to hand out whole GPUs: replicas is 1; sharing needs at least 2; the "
        "device plugin would exit with: number of replicas must be >= 2"
    )
    assert answer.causes == [f"{path}: {cause} [GA132]"]
    assert answer.message == denied("configuration", f"{cause}; {path} [GA132]")


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        pytest.param(
            {"placement": {"wishes": [{"wish": {"min-memory": "lots"}}]}},
            "spec.placement.wishes[0].wish[min-memory]",
            'Write one such as "40Gi": min-memory is "lots", which is not a Kubernetes quantity',
            id="more than a schema can judge",
        ),
        pytest.param(
            {"rules": [{"rule": "GA307", "severity": "never"}]},
            "spec.rules[0].severity",
            'Write deny, warn, audit or off: severity is "never"',
            id="what the schema refuses too",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_refused(cluster, spec, path, message):
    answer = cluster.create(manifests.settings(**spec), dry_run=True)
    assert answer.causes == [f"{path}: {message} [GA701]"]
    assert answer.message == denied("configuration", f"{message}; {path} [GA701]")
