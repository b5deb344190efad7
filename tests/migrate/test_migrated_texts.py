"""Texts are migrated and turned back byte for byte, whatever their layout."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.analyses.migrate.text_edits import UneditableError, read_text
from policies.kubernetes.yaml import DEFAULT_LIMITS
from tests.migrate.texts import migrate_text, restored_text
from tests.properties import examples

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"

LAYOUTS = {
    "block": HEAD
    + dedent("""\
        spec:
          containers:
          - name: c  # the trainer
            resources:
              limits:
                # one is enough
                nvidia.com/gpu: 1   # for now
                cpu: "4"
        """),
    "only gpus": HEAD
    + dedent("""\
        spec:
          containers:
          - name: c
            resources:
              requests:
                nvidia.com/gpu: "1"
              limits:
                nvidia.com/gpu: "1"
        """),
    "resources first in the item": HEAD
    + dedent("""\
        spec:
            containers:
              - resources:
                    limits: {nvidia.com/gpu: 2}
                name: c
            tolerations:
              - operator: Exists
                key: other
        """),
    "flow": HEAD + "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1, cpu: 1}}}]}  # short\n",
    "flow over lines": HEAD
    + dedent("""\
        spec: {
          containers: [
            {name: c, resources: {
              limits: {
                nvidia.com/gpu: 1,  # all
              },
            }},
          ],
        }
        """),
    "no line break at the end": HEAD
    + "spec:\n  containers:\n  - name: c\n    resources:\n      limits:\n        nvidia.com/gpu: 1",
    "gpus at the end of the file": HEAD
    + "spec:\n  nodeSelector:\n    a: b\n  containers:\n  - name: c\n    resources:\n      limits:\n        nvidia.com/gpu: 1\n",
    "null and empty fields": HEAD
    + dedent("""\
        spec:
          tolerations:
          resourceClaims: []
          nodeSelector: ~
          containers:
          - name: c
            resources: {limits: {"nvidia.com/gpu": '1'}, requests: {}}
        """),
    "block scalars": HEAD
    + dedent("""\
        spec:
          containers:
          - name: c
            args:
            - |
              # nvidia.com/gpu: 1
                indented

            resources:
              limits: {nvidia.com/gpu: 1}
            command: [sh, -c, >-
              a
              b]
        """).replace("command: [sh, -c, >-\n      a\n      b]", "command: [sh, '-c', \"a\n      b\"]"),
    "merge key": dedent("""\
        apiVersion: v1
        kind: Pod
        metadata: {name: a}
        x-common: &common
          imagePullPolicy: Always
        spec:
          containers:
          - <<: *common
            name: c
            resources:
              limits:
                nvidia.com/gpu: 1
        """),
    "node selector and affinity": HEAD
    + dedent("""\
        spec:
          nodeSelector:
            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3   # fast
            zone: a
          affinity:
            nodeAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                nodeSelectorTerms:
                - matchExpressions:
                  - key: zone
                    operator: Exists
                  - key: nvidia.com/gpu.memory
                    operator: Gt
                    values:
                    - "40000"
          containers:
          - name: c
            resources:
              limits:
                nvidia.com/gpu: 1
        """),
    "second document with comments": "# header\n\n# first\napiVersion: v1\nkind: Service\nmetadata: {name: s}\n---  # next\n"
    + HEAD
    + "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n...\n",
    "list": dedent("""\
        apiVersion: v1
        kind: List
        items:
          - apiVersion: v1
            kind: Pod
            metadata: {name: a}
            spec:
              containers:
                - name: c
                  resources: {limits: {nvidia.com/gpu: 1}}
        """),
    "license above": "# Copyright\n\n# Trains.\n"
    + HEAD
    + "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 1}}}]}\n",
    "JSON": '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c",\n'
    '\t"resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 2}}}]}}\n',
    "JSON list": '{"apiVersion": "v1", "kind": "List", "items": [\n {"apiVersion": "v1", "kind": "Pod", "metadata":\n'
    '  {"name": "a"}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}\n]}',
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("line_break", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_migrated_text_is_turned_back_byte_for_byte(name, line_break):
    text = LAYOUTS[name].replace("\n", line_break)
    migrated = migrate_text(text)
    assert migrated != text
    assert migrate_text(migrated) == migrated
    assert restored_text(migrated) == text


def test_aliases_that_would_become_different_are_left():
    text = HEAD + dedent("""\
        spec:
          containers:
          - name: c
            resources: &gpu {limits: {nvidia.com/gpu: 1}}
          - name: d
            resources: *gpu
        """)
    with pytest.raises(UneditableError) as raised:
        migrate_text(text)
    assert "anchor" in str(raised.value)


def test_alias_that_becomes_the_same_is_edited_at_its_anchor():
    text = dedent("""\
        apiVersion: kubeflow.org/v1
        kind: PyTorchJob
        metadata: {name: a}
        spec:
          pytorchReplicaSpecs:
            Master:
              template: &template
                spec:
                  containers:
                  - name: pytorch
                    resources: {limits: {nvidia.com/gpu: 1}}
            Worker:
              template: *template
        """)
    migrated = migrate_text(text)
    assert migrated.count("resourceClaimTemplateName: a-gpu}") == 1
    assert restored_text(migrated) == text


def test_other_edits_survive_the_way_back():
    migrated = migrate_text(LAYOUTS["block"])
    edited = migrated.replace("name: c  # the trainer", "name: c\n    image: new")
    assert restored_text(edited) == LAYOUTS["block"].replace("name: c  # the trainer", "name: c\n    image: new")


def test_only_edited_lines_differ():
    text = LAYOUTS["node selector and affinity"]
    migrated = migrate_text(text)
    kept = [line for line in migrated.split("\n") if line in text.split("\n")]
    assert [line for line in text.split("\n") if line not in kept] == [
        "    nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3   # fast",
        "          - key: nvidia.com/gpu.memory",
        "            operator: Gt",
        "            values:",
        '            - "40000"',
        "      limits:",
        "        nvidia.com/gpu: 1",
    ]


AMOUNT = st.sampled_from(["1", '"1"', "'2'", "0x1", "2 # two"])
COMMENT = st.sampled_from(["", "  # why", "\t# tab"])
STEP = st.integers(1, 4)


@st.composite
def manifests(draw):
    """Pods with random indentation, styles, order, quotes and comments."""
    step, dash = draw(STEP), draw(st.integers(0, 2))
    key = draw(st.sampled_from(["nvidia.com/gpu", '"nvidia.com/gpu"', "nvidia.com/mig-1g.10gb"]))
    lines = draw(st.sampled_from([[], ["# head", ""], ["---"], ["# head", "---"]]))
    lines += ["apiVersion: v1", "kind: Pod", "metadata:", f"{' ' * step}name: a{draw(COMMENT)}", "spec:"]
    fields = draw(st.permutations(["containers", "nodeSelector", "tolerations"]))
    for field in fields[: draw(st.integers(1, 3))] if fields[0] == "containers" else fields:
        lines.append(f"{' ' * step}{field}:{draw(COMMENT)}")
        inner = " " * (step + dash)
        if field == "nodeSelector":
            lines += [f"{' ' * (2 * step)}zone: a", f"{' ' * (2 * step)}nvidia.com/gpu.family: hopper{draw(COMMENT)}"]
        elif field == "tolerations":
            lines.append(f"{inner}- {{key: x, operator: Exists}}")
        else:
            for name in range(draw(st.integers(1, 3))):
                lines.append(f"{inner}- name: c{name}{draw(COMMENT)}")
                if draw(st.booleans()):
                    lines.append("")
                amount = draw(AMOUNT)
                if draw(st.booleans()) and "#" not in amount:
                    lines.append(f"{inner}  resources: {{limits: {{{key}: {amount}}}}}{draw(COMMENT)}")
                else:
                    lines += [f"{inner}  resources:", f"{inner}      limits:{draw(COMMENT)}"]
                    limits = [f"{key}: {amount}", "cpu: 1"][: draw(st.integers(1, 2))]
                    lines += [f"{inner}       {limit}" for limit in draw(st.permutations(limits))]
    if "nodeSelector" in fields and draw(st.booleans()):
        lines.append("# the end")
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))


@settings(max_examples=examples(80))
@given(manifests())
def test_every_layout_is_migrated_once_and_turned_back(text):
    migrated = migrate_text(text)
    assert migrated != text
    assert migrate_text(migrated) == migrated
    assert restored_text(migrated) == text


@pytest.mark.parametrize(
    "record",
    ["[" * 100_000, '{"text": "x", "templates": 1, "was": [[Infinity, 1, "a"]]}', '{"text": "x"}', "1"],
    ids=["deep", "infinite", "incomplete", "number"],
)
def test_invalid_record_in_json_is_reported(record):
    template = {"metadata": {"annotations": {"gpu-admission.io/migrated": record}}}
    with pytest.raises(UneditableError, match=r"the annotation gpu-admission\.io/migrated of its template is invalid"):
        restored_text(json.dumps({"items": [template, {"kind": "Pod"}]}))


def test_alias_of_a_key_does_not_lead_to_an_earlier_value_of_that_anchor():
    (document,) = read_text("a: &x one\n&x two: 2\nb: *x\n", DEFAULT_LIMITS)
    node = document.root.child("b")
    assert (node.value, node.resolved) == ("two", node)
