"""Redacted objects have no name that users chose, and the findings of the objects that they stand for."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from functools import cache
from itertools import count

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.configuration.schemas import CLUSTER_POLICY, GPU_CLUSTER, NVIDIA_DRIVER
from policies.conversion.templates import content_name
from policies.devices.resource_claims import Claim
from policies.fleet.bound_pods import start_reasons, unhealthy_devices_of
from policies.kubernetes.yaml import load_document
from policies.nvidia.config_grammar import GRAMMAR
from policies.nvidia.config_grammar import SCHEMAS as CONFIGS
from policies.nvidia.releases import DRIVER_GATES
from policies.nvidia.start_failures import known_failure
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from policies.rules.settings.parsing import parse_settings
from testbed import libyaml
from tests.cli.snapshots.test_reductions import FOLDERS, ROOT, documents_of, examples, is_reduced, reduced
from tests.robustness.generated_clusters import CLUSTERS, PODS
from webhook.cli.manifest_reader import Manifest
from webhook.cli.snapshots.reductions import reduction_of
from webhook.cli.snapshots.replaced_names import PUBLIC_WORDS, ReplacedNames
from webhook.cli.subjects import Circumstances, SubjectReader, admit
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES

SHAPES = ("{word}", "{before} {word}", '{before}["{word}"]', "{word}/{before}", "{before}: {word}-7\n")
"""Names alone, and in texts such as CEL, lists and configuration."""
WORDS = ("acme", "acme-vision", "ACME_TOKEN", "команда")
"""The names that users choose; each is planted with a number."""
FIRST = ("Namespace", "Node", "ResourceClaimTemplate")
"""A snapshot reads these kinds first."""
MISSPELT = {"corpus/resource-of-a-misspelt-vendor.yaml", "corpus/field-beside-its-misspelling.yaml"}
"""Files with words of users that resemble public ones, which a replacement does not."""


def planted(value, shape, numbers):
    """A value with a new name in each text, and in a further key of each mapping."""
    if isinstance(value, str):
        return shape.format(before=value, word=new_name(numbers))
    if isinstance(value, list):
        return [planted(item, shape, numbers) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: planted(item, shape, numbers) for key, item in value.items()}
    return {**fields, new_name(numbers): new_name(numbers)}


def new_name(numbers):
    number = next(numbers)
    return f"{WORDS[number % len(WORDS)]}{number}"


@cache
def documents_by_kind():
    """The objects of all example files, and some of each kind that a snapshot has."""
    found = defaultdict(list)
    for folder in FOLDERS:
        for file in sorted(folder.rglob("*.yaml")):
            for each in documents_of(file):
                found[each["kind"]].append(each)
    for resource in (*RESOURCES.values(), *WORKLOAD_RESOURCES.values()):
        bare = {
            "kind": resource.kind,
            "metadata": {"name": "a", "labels": {"a": "b"}},
            "spec": {"a": ["b", {"c": "d"}]},
        }
        found[resource.kind] += [bare] * len(WORDS)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_no_name_in_any_text_of_any_kind_is_kept(shape):
    """Objects begin with different words in turn, so that each field of a kind gets each word in some object."""
    for kind, documents in documents_by_kind().items():
        for first, document in enumerate(documents):
            numbers = count(first)
            planted_in = {**planted(document, shape, numbers), "kind": kind}
            text = json.dumps(ReplacedNames().rename(planted_in), ensure_ascii=False)
            assert next(numbers) > first + 4
            assert [word for word in WORDS if word in text] == [], (kind, text)


NAMES = st.from_regex(re.compile(r"[a-zA-Z][a-zA-Z0-9]{2,8}(?:[-_][a-z][a-z0-9]{2,8}){0,2}", re.ASCII), fullmatch=True)


@given(names=st.lists(NAMES, unique=True, min_size=1, max_size=20))
def test_different_names_stay_different_and_equal_ones_equal(names):
    names = [name for name in names if name not in PUBLIC_WORDS]
    replaced = ReplacedNames()
    labels = {"kind": "Pod", "metadata": {"name": "a", "labels": {name: name for name in names}}}
    found = replaced.rename(labels)["metadata"]["labels"]
    assert len(found) == len(names)
    assert [*found] == [*found.values()]
    assert replaced.rename(labels)["metadata"]["labels"] == found


def findings(documents):
    """The rules that each object breaks, with all others at hand."""
    view, place = ManifestsView((), documents), load_document("{}")
    reader = SubjectReader(Circumstances(), [], view=view)
    subjects = reader.subjects([Manifest(document, "x.yaml", place, ()) for document in documents])
    return [
        sorted((each.rule.id, each.severity) for each in admit(subject, view, DEFAULTS).findings)
        for subject in subjects
    ]


def test_redacted_objects_have_the_findings_of_the_reduced_ones():
    different = set()
    for file, documents in examples().items():
        kept = [reduced(each) if is_reduced(each) else each for each in documents]
        kept.sort(key=lambda each: each["kind"] not in FIRST)
        replaced = ReplacedNames()
        if findings([replaced.rename(each) for each in kept]) != findings(kept):
            different.add(str(file.relative_to(ROOT / "tests" / "configuration")))
    assert different == MISSPELT


def verdicts(pod, documents):
    """The answers of the entries for new pods, up to names."""
    found = []
    for entry in ("convert-pods", "place-pods", "check-pods", "guard-pods"):
        request = Request(pod, kind="Pod", namespace=pod["metadata"]["namespace"], name="a", entry=entry)
        decision = review(request, ManifestsView(documents), DEFAULTS)
        found.append((decision.allowed, sorted((each.rule.id, each.severity) for each in decision.findings)))
    return found


@given(documents=CLUSTERS, pod=PODS)
def test_redacted_pods_in_a_redacted_cluster_have_the_same_verdicts(documents, pod):
    replaced = ReplacedNames()
    documents.sort(key=lambda each: each.get("kind") not in FIRST)
    redacted = [replaced.rename(each) if "metadata" in each else each for each in documents]
    assert verdicts(replaced.rename(pod), redacted) == verdicts(pod, documents)


def renamed(kind, name="a", **fields):
    return ReplacedNames().rename({"kind": kind, "metadata": {"name": name}, **fields})


def test_labels_by_which_gke_cuts_gpus_are_kept():
    selector = {
        "cloud.google.com/gke-gpu-partition-size": "1g.10gb",
        "cloud.google.com/gke-gpu-sharing-strategy": "time-sharing",
        "cloud.google.com/gke-nodepool": "secret-pool",
    }
    found = renamed("Pod", spec={"nodeSelector": selector})["spec"]["nodeSelector"]
    assert found == {**selector, "cloud.google.com/gke-nodepool": "name-1"}


def test_uuids_in_selectors_are_those_of_the_redacted_devices():
    uuid = "GPU-5b0b1c2d-1234-4abc-9def-0123456789ab"
    replaced = ReplacedNames()
    attributes = {"uuid": {"string": uuid}}
    devices = {"kind": "ResourceSlice", "metadata": {"name": "a"}, "spec": {"devices": [{"attributes": attributes}]}}
    expression = f'device.attributes["gpu.nvidia.com"].uuid == "{uuid}"'
    device_class = {"kind": "DeviceClass", "metadata": {"name": "a"}, "spec": {"expression": expression}}
    published = replaced.rename(devices)["spec"]["devices"][0]["attributes"]["uuid"]["string"]
    assert published == "GPU-00000000-0000-0000-0000-000000000001"
    selector = replaced.rename(device_class)["spec"]["expression"]
    assert selector == f'device.attributes["gpu.nvidia.com"].uuid == "{published}"'


OTHER = {
    "the account of a registry": ("123456789012.dkr.ecr.eu-1.amazonaws.com/x:20260501", "123456789012", "image1."),
    "an address": ("10.1.2.3:5000/x", "10.1.2.3", "198.18.0.1:"),
    "a host in a domain": ("zone.10.1.2.3", "10.1.2.3", ".198.18.0.1"),
    "a host with dashes": ("ip-10-1-2-3.ec2.internal", "10-1-2-3", "image-1."),
    "a UUID that ends in digits": ("5b0b1c2d-1234-4abc-9def-012345678901", "012345678901", "-000000000001"),
    "a UUID in capitals": ("GPU-5B0B1C2D-1234-4ABC-9DEF-012345678901", "012345678901", "GPU-00000000-"),
    "an old UUID of MIG": ("MIG-GPU-5b0b1c2d-1234-4abc-9def-012345678901/1/0", "012345678901", "-000000000001/1/0"),
    "the hash of a template": ("gpu-89abcdef01234567", "89abcdef", "gpu-0000000000000001"),
    "marks of a script": ("टीम-एक", "ी", "image-1"),
    "a picture": ("x🦄", "🦄", "image1"),
}


@pytest.mark.parametrize(("text", "chosen", "instead"), OTHER.values(), ids=OTHER)
def test_names_of_other_forms_are_replaced(text, chosen, instead):
    image = renamed("Pod", spec={"image": text})["spec"]["image"]
    assert chosen not in image
    assert instead in image


@pytest.mark.parametrize("text", ["570.133.20", "v1.2.3.4", "1.2.3.4.5", "24.10-1.1.4", "20260501", "137438953472"])
def test_versions_and_amounts_are_kept(text):
    assert renamed("Node", status={"capacity": {"memory": text}})["status"]["capacity"]["memory"] == text


def words_of(schema):
    """The fields of a schema, and the texts that they allow."""
    for name, field in schema.fields.items():
        yield from (name, *field.choices, *words_of(field))


def words_of_definition(part):
    """The same of a CustomResourceDefinition."""
    if isinstance(part, dict):
        yield from (*(part.get("properties") or ()), *(part.get("enum") or ()))
        part = [*part.values()]
    for each in part if isinstance(part, list) else ():
        yield from words_of_definition(each)


DEFINITIONS = [
    libyaml.load((ROOT / "deploy" / "base" / "api" / name).read_text())
    for name in ("gpuadmissionpolicies.yaml", "gpuquotas.yaml")
]
SCHEMAS = {
    "ClusterPolicy": words_of(CLUSTER_POLICY),
    "GPUCluster": words_of(GPU_CLUSTER),
    "NVIDIADriver": words_of(NVIDIA_DRIVER),
    "device plugin": words_of(GRAMMAR),
    **{kind: words_of(schema) for kind, schema in CONFIGS.items()},
    **{each["spec"]["names"]["kind"]: words_of_definition(each) for each in DEFINITIONS},
    "gates of the DRA driver": DRIVER_GATES,
}


@pytest.mark.parametrize("words", SCHEMAS.values(), ids=SCHEMAS)
def test_words_of_every_schema_are_kept(words):
    words = {*words} - {""}
    assert len(words) >= 3
    assert words <= PUBLIC_WORDS


def test_kinds_that_an_administrator_added_stay_valid():
    added = {"group": "acme.example", "kind": "AcmeRun", "templates": ["spec.acmeTemplate"]}
    settings = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
    }
    replaced = ReplacedNames()
    (kind,) = parse_settings(replaced.rename({**settings, "spec": {"workloads": {"kinds": [added]}}})).workloads.kinds
    run = {"apiVersion": "acme.example/v1", "kind": "AcmeRun", "metadata": {"name": "a"}, "spec": {"acmeTemplate": {}}}
    found = replaced.rename(run)
    assert (f"{kind.group}/v1", kind.kind) == (found["apiVersion"], found["kind"]) == ("name1.name2/v1", "Kind1")


def test_pods_keep_their_numbers():
    replaced = ReplacedNames()
    names = [
        replaced.rename({"kind": "Pod", "metadata": {"name": name}})["metadata"]["name"] for name in ("x-0", "x-1")
    ]
    assert names == ["pod1-0", "pod1-1"]


def test_template_of_ours_is_named_after_its_redacted_content():
    spec = {"spec": {"devices": {"requests": [{"name": "acme", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}}
    replaced = ReplacedNames()
    name = content_name(spec)
    template = replaced.rename({"kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": spec})
    assert template["metadata"]["name"] == content_name(template["spec"]) != name
    pod = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"resourceClaimTemplateName": name}}
    assert replaced.rename(pod)["spec"]["resourceClaimTemplateName"] == template["metadata"]["name"]


def test_sentences_for_people_are_replaced_as_a_whole():
    limit = {"name": "acme", "summary": "all of the GPUs"}
    found = renamed("GPUQuota", spec={"limits": [limit]}, status={"conditions": [{"message": "of the pods"}]})
    assert found["spec"]["limits"][0]["summary"] == found["status"]["conditions"][0]["message"] == "redacted"


CLAIM_UID = "0a1b2c3d-0000-4000-8000-00000000abcd"
STARTS = f"""
- kind: Event
  metadata: {{name: train.1, namespace: acme}}
  type: Warning
  reason: FailedPrepareDynamicResources
  message: "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed for ResourceClaim
    train-acme: error preparing devices for claim acme/train-acme:{CLAIM_UID}: requested device gpu-0 is already allocated to
    different claim {CLAIM_UID}"
  involvedObject: {{kind: Pod, namespace: acme, name: train-acme, uid: u-1}}
- kind: Pod
  metadata: {{name: train-acme, namespace: acme, uid: u-1}}
  spec:
    nodeName: node-acme
    containers: [{{name: main, resources: {{claims: [{{name: gpu}}]}}}}]
    resourceClaims: [{{name: gpu, resourceClaimName: train-acme}}]
  status:
    phase: Pending
    containerStatuses:
    - name: main
      state: {{waiting: {{reason: CreateContainerError, message: "exec: /bin/acme --password=hunter2: not found"}}}}
      allocatedResourcesStatus:
      - name: "claim:gpu"
        resources: [{{resourceID: "k8s.gpu.nvidia.com/claim={CLAIM_UID}-gpu-0", health: Unhealthy, message: acme resets}}]
- kind: ResourceClaim
  apiVersion: resource.k8s.io/v1
  metadata: {{name: train-acme, namespace: acme, uid: {CLAIM_UID}}}
  spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: gpu.nvidia.com}}}}]}}}}
  status:
    allocation: {{devices: {{results: [{{request: gpu, driver: gpu.nvidia.com, pool: node-acme, device: gpu-0}}]}}}}
    devices:
    - driver: gpu.nvidia.com
      pool: node-acme
      device: gpu-0
      networkData: {{interfaceName: eth1, ips: [10.99.0.5/24], hardwareAddress: "aa:bb:cc:dd:ee:ff"}}
"""


@pytest.fixture(scope="module")
def starts():
    """A bound pod with its event and its claim, before and after a snapshot without names."""
    whole = yaml.safe_load(STARTS)
    names = ReplacedNames()
    return whole, [names.rename(reduction_of(RESOURCES[each["kind"]])(each)) for each in whole]


def test_start_failures_are_without_names_and_secrets(starts):
    text = json.dumps(starts[1])
    assert not re.search(rf"acme|hunter2|password|10\.99|aa:bb|{CLAIM_UID}", text)


def test_start_failures_without_names_have_the_same_causes(starts):
    found = []
    for objects in starts:
        view = ManifestsView(objects)
        (pod,) = view.list("Pod")
        reasons = start_reasons(pod, view)
        (claim,) = view.list("ResourceClaim")
        unhealthy = [each.device for each in unhealthy_devices_of(pod, [Claim(claim)], view)]
        found.append(([known_failure(each.text) and known_failure(each.text).row for each in reasons], unhealthy))
    assert found[0] == found[1]
    assert found[0][1] == ["gpu-0"]
    assert found[0][0][1] is not None
