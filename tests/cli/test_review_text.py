"""`review` as text: what kubectl would print, the places of the causes, and the diff."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.admission.webhooks import ENTRIES
from policies.kubernetes.pod_templates import with_defaults
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cli.manifest_reader import ManifestReader
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission_review import encode

ALWAYS = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUAdmissionPolicy",
    "metadata": {"name": "default"},
    "spec": {"placement": {"tolerateGPUNodes": "Always"}},
}
REFUSED = """\
apiVersion: v1
kind: Pod
metadata: {name: count, namespace: team-a}
spec:
  nodeSelector:
    nvidia.com/gpu.count: "8"
  containers:
  - name: train
    resources:
      limits: {nvidia.com/gpu: 1}
"""


def test_converted_pod_is_shown_as_a_diff_and_the_names_of_its_templates(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, write("pod.yaml", pod()))
    assert done.exit_code == 0
    assert done.stderr == ""
    assert (
        done.stdout
        == """\
pod.yaml:1  Pod team-a/train  admitted, converted
--- Pod team-a/train before admission
+++ Pod team-a/train as admitted
@@ -3,12 +3,22 @@
 metadata:
   name: train
   namespace: team-a
+  annotations:
+    gpu-admission.io/converted: '{"containers":[{"name":"train","kind":"container","resources":{"nvidia.com/gpu":1}}]}'
+  labels:
+    gpu-admission.io/managed: "true"
 spec:
   containers:
   - name: train
     image: pytorch:2.7
     resources:
-      limits:
-        nvidia.com/gpu: 1
-      requests:
-        nvidia.com/gpu: 1
+      claims:
+      - name: gpu
+        request: train
+  resourceClaims:
+  - name: gpu
+    resourceClaimTemplateName: gpu-c6e64bdbb49dc79c
+  tolerations:
+  - key: nvidia.com/gpu
+    operator: Exists
+    effect: NoSchedule
refers to ResourceClaimTemplate team-a/gpu-c6e64bdbb49dc79c (-o yaml prints it in full)

1 object: 1 admitted (1 converted)
"""
    )


def test_refused_pod_is_shown_as_kubectl_prints_it_with_the_place_of_the_cause(invoke, cluster, write):
    done = invoke("review", "--cluster", cluster, write("pod.yaml", REFUSED))
    assert done.exit_code == 1
    assert (
        done.stdout
        == """\
pod.yaml:1  Pod team-a/count  refused
Error from server (Forbidden): error when creating "pod.yaml": admission webhook "convert-pods.gpu-admission.io" denied the request: \
Remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, .memory or .family: nvidia.com/gpu.count \
counts the GPUs of the node; no device knows how many there are; spec.nodeSelector[nvidia.com/gpu.count] [GA307]
  GA307 deny  pod.yaml:6:27  A node label that selects GPUs must have an exact equivalent on a device
        nvidia.com/gpu.count: "8"
                              ^

1 object: 1 refused
"""
    )


def test_several_denials_stand_on_a_line_each(invoke, cluster, write, pod):
    document = pod(gpus="0.5")
    document["spec"]["containers"] *= 2
    document["spec"]["containers"][1] = {**document["spec"]["containers"][0], "name": "other"}
    done = invoke("review", "--cluster", cluster, write("pod.yaml", document))
    first, second = done.stdout.splitlines()[1:3]
    remedy = "Request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb"
    assert first == (
        'Error from server (Forbidden): error when creating "pod.yaml": admission webhook "convert-pods.gpu-admission.io" '
        f'denied the request: {remedy}: "0.5" is not a whole number of devices; '
        "spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]"
    )
    assert second == f"{remedy}; spec.containers[1].resources.limits[nvidia.com/gpu] [GA302]"


def test_refusal_is_the_message_that_the_webhook_answers(invoke, cluster, write):
    (document,) = ManifestReader().manifests([write("pod.yaml", REFUSED)])
    request = Request(with_defaults(document.object), namespace="team-a", entry="convert-pods")
    decision = review(request, ManifestsView(ManifestReader().cluster([cluster])), DEFAULTS)
    answer = encode(decision, ENTRIES["convert-pods"], request)
    message = answer["response"]["status"]["message"]
    done = invoke("review", "--cluster", cluster, "pod.yaml")
    assert f'"convert-pods.gpu-admission.io" denied the request: {message}\n' in done.stdout


def test_warnings_are_shown_as_kubectl_prints_them(invoke, cluster, write, pod):
    document = pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"})
    done = invoke("review", "--cluster", cluster, write("pod.yaml", document))
    assert done.exit_code == 0
    assert done.stdout.splitlines()[:6] == [
        "pod.yaml:1  Pod team-a/train  admitted, converted",
        'Warning: Write "NVIDIA-H100-80GB-HBM3": no device matches product NVIDIA-H100; the cluster has NVIDIA-A100-SXM4-80GB on 1 node,',
        "Warning:   NVIDIA-H100-80GB-HBM3 on 2 nodes; spec.nodeSelector[nvidia.com/gpu.product] [GA313]",
        "  GA313 warn  pod.yaml:14:29  A device of the cluster must match the request",
        "        nvidia.com/gpu.product: NVIDIA-H100",
        "                                ^",
    ]


def test_malformed_pod_is_refused_as_the_api_server_words_it(invoke, cluster, write):
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: team-a}\nspec: {containers: {name: train}}\n"
    done = invoke("review", "--cluster", cluster, write("pod.yaml", text))
    assert done.exit_code == 1
    assert done.stdout.splitlines()[1:5] == [
        'The Pod "x" is invalid: spec.containers: Write containers as a list: it is a mapping [GA301]',
        "  GA301 deny  pod.yaml:4:20  A pod must have the shape that Kubernetes defines",
        "    spec: {containers: {name: train}}",
        "                       ^",
    ]


def test_several_malformed_fields_stand_on_a_line_each(invoke, cluster, write):
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: {name: train}, nodeSelector: 1}\n"
    done = invoke("review", "--cluster", cluster, write("pod.yaml", text))
    assert done.stdout.splitlines()[1:11] == [
        'The Pod "x" is invalid: ',
        "* spec.nodeSelector: Write nodeSelector as a mapping: it is a number [GA301]",
        "* spec.containers: Write containers as a list [GA301]",
        "  GA301 deny  pod.yaml:4:49  A pod must have the shape that Kubernetes defines",
        "    spec: {containers: {name: train}, nodeSelector: 1}",
        "                                                    ^",
        "  GA301 deny  pod.yaml:4:20  A pod must have the shape that Kubernetes defines",
        "    spec: {containers: {name: train}, nodeSelector: 1}",
        "                       ^",
        "    Reason: containers is a mapping",
    ]


def test_diff_has_no_control_characters(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, write("pod.yaml", pod(hostname="a\u202e\u200bb")))
    assert "   hostname: a  b\n" in done.stdout
    assert "\u202e" not in done.stdout


def test_pod_without_gpus_is_admitted_in_one_line(invoke, cluster, write):
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web"}]},
    }
    done = invoke("review", "--cluster", cluster, "-n", "team-a", write("pod.yaml", document))
    assert done.stdout == "pod.yaml:1  Pod team-a/web  admitted\n\n1 object: 1 admitted\n"


def test_pod_of_another_namespace_gets_the_toleration_of_the_settings_only(invoke, cluster, write, pod):
    settings = write("settings.yaml", ALWAYS)
    done = invoke(
        "review", "--cluster", cluster, "--settings", settings, write("pod.yaml", pod(namespace="team-legacy"))
    )
    assert done.stdout.startswith("pod.yaml:1  Pod team-legacy/train  admitted, changed\n")
    assert "+  tolerations:\n+  - key: nvidia.com/gpu\n" in done.stdout
    assert done.stdout.endswith("\n\n1 object: 1 admitted\n")


def test_kind_without_rules_is_not_reviewed(invoke, cluster, write):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "team-a"}}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}}
    done = invoke("review", "--cluster", cluster, write("all.yaml", service, namespace))
    assert (
        done.stdout
        == """\
all.yaml:1  Service team-a/web  not reviewed: gpu-admission has no rules for this kind

all.yaml:7  Namespace team-b  admitted

2 objects: 1 admitted, 1 not reviewed
"""
    )


def test_summary_counts_what_became_of_the_objects(invoke, cluster, write, pod):
    file = write("all.yaml", pod("a"), pod("b", "team-legacy"), REFUSED)
    done = invoke("review", "--cluster", cluster, file)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "3 objects: 2 admitted (1 converted), 1 refused"


def test_generated_names_are_shown_with_a_star(invoke, cluster, write, pod):
    document = pod()
    document["metadata"] = {"generateName": "train-", "namespace": "team-a"}
    done = invoke("review", "--cluster", cluster, write("pod.yaml", document))
    assert done.stdout.startswith("pod.yaml:1  Pod team-a/train-*  admitted, converted\n")


@pytest.mark.parametrize("place", ["name", "image"])
def test_control_characters_do_not_reach_the_terminal(invoke, cluster, write, pod, place):
    document = pod()
    escape = "\x1b[31mred"
    if place == "name":
        document["metadata"]["name"] = escape
    else:
        document["spec"]["containers"][0]["image"] = escape
        document["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": escape}
    done = invoke("review", "--cluster", cluster, write("pod.yaml", document))
    assert "\x1b" not in done.output
    assert "[31mred" in done.output


def test_rule_that_is_only_audited_is_shown_with_its_place(invoke, cluster, write, pod):
    settings = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec: {rules: [{rule: GA313, severity: audit}]}
"""
    document = pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"})
    file = write("pod.yaml", document)
    done = invoke("review", "--cluster", cluster, "--settings", write("settings.yaml", settings), file)
    assert (
        done.stdout.splitlines()[1] == "  GA313 audit  pod.yaml:14:29  A device of the cluster must match the request"
    )
    assert "Warning:" not in done.stdout


def test_refusal_that_no_webhook_would_make_names_none(invoke, write, pod):
    settings = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec: {rules: [{rule: GA324, severity: deny}]}
"""
    done = invoke("review", "--settings", write("settings.yaml", settings), write("pod.yaml", pod()))
    assert done.exit_code == 1
    assert (
        done.stdout
        == """\
pod.yaml:1  Pod team-a/train  refused
Error when reviewing "pod.yaml": Add the Namespace to the files, or give the cluster's with --cluster: \
namespace "team-a" is in none of the files, so the pod is reviewed as not converted; metadata.namespace [GA324]
  GA324 deny  pod.yaml:5:14  The namespace of a pod must be known
      namespace: team-a
                 ^

1 object: 1 refused
"""
    )
