"""Edits of ConfigMaps that the GPU Operator overwrites (gpu-operator issues 249, 281, 384)."""

import pytest

from policies.rules.decision import Severity
from policies.rules.request import UserInfo
from tests.findings import plain_text

OWNER = "ownerReferences: [{apiVersion: nvidia.com/v1, kind: ClusterPolicy, name: cluster-policy}]"


def config_map(data="{}", name="default-gpu-clients", namespace="gpu-operator", metadata=""):
    more = f", {metadata}" if metadata else ""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}{more}}}\ndata: {data}\n"


def policy(spec):
    return f"---\napiVersion: nvidia.com/v1\nkind: ClusterPolicy\nmetadata: {{name: cluster-policy}}\nspec: {spec}\n"


@pytest.fixture
def findings_of(examined):
    """`findings_of(text)`: what GA107 says, always as a warning."""

    def texts(text, **options):
        found = [one for one in examined(text, **options) if one.rule.id == "GA107"]
        assert {one.severity for one in found} <= {Severity.WARN}
        return [plain_text(one) for one in found]

    return texts


def edited(before, after, facts="", **options):
    return f"{config_map(after, **options)}--- # before\n{config_map(before, **options)}{facts}"


def test_config_map_of_the_operators_name_is_warned_about_with_what_to_do_instead(findings_of):
    assert findings_of(config_map()) == [
        (
            'metadata.name: "default-gpu-clients" belongs to the GPU Operator, which writes its own content over it; give the '
            'ConfigMap another name, such as "custom-gpu-clients", and name it in spec.migManager.gpuClientsConfig.name of '
            "the ClusterPolicy"
        )
    ]


def test_edit_is_warned_about_and_an_annotation_is_not(findings_of):
    assert len(findings_of(edited("{clients.yaml: 'version: v1'}", "{clients.yaml: ''}", metadata=OWNER))) == 1
    assert findings_of(edited("{clients.yaml: 'version: v1'}", "{clients.yaml: 'version: v1'}", metadata=OWNER)) == []


def test_edit_of_anything_that_the_operator_owns_is_warned_about(findings_of):
    (text,) = findings_of(
        edited("{entrypoint.sh: a}", "{entrypoint.sh: b}", name="nvidia-x-entrypoint", metadata=OWNER)
    )
    assert text == (
        'metadata.name: "nvidia-x-entrypoint" belongs to the GPU Operator, which writes its own content over it; change '
        "the ClusterPolicy that it is made from"
    )


def test_config_map_that_is_no_longer_read_says_which_one_is(findings_of):
    facts = policy("{migManager: {gpuClientsConfig: {name: ours}}}")
    assert findings_of(edited("{}", "{clients.yaml: ''}", facts)) == [
        (
            'metadata.name: "default-gpu-clients" is not read, because spec.migManager.gpuClientsConfig.name of the '
            'ClusterPolicy names "ours"; edit the ConfigMap "ours"'
        )
    ]


@pytest.mark.parametrize(
    "text",
    [
        config_map(metadata=OWNER),
        config_map(namespace="team-a"),
        config_map(name="custom-gpu-clients"),
        edited("{a: b}", "{a: c}", name="custom-gpu-clients"),
        f"# operation: DELETE\n{config_map()}",
    ],
    ids=["as the operator made it", "elsewhere", "another name", "edit of another", "deletion"],
)
def test_other_config_maps_pass(findings_of, text):
    assert findings_of(text) == []


def test_operator_may_write_its_own(findings_of):
    operator = UserInfo("system:serviceaccount:gpu-operator:gpu-operator")
    assert findings_of(config_map(), user=operator) == []
    assert findings_of(edited("{a: b}", "{a: c}", metadata=OWNER), user=operator) == []
