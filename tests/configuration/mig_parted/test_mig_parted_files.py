"""Files of mig-parted ConfigMaps: their key, their grammar and the default configuration."""

import pytest

from tests.configuration.mig_parted.config_maps import HEAD, config_map, policy
from tests.findings import labelled_text

CAPABLE = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"}


def gpu_node(**labels):
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {**CAPABLE, **labels}}}


@pytest.mark.parametrize(
    ("node", "severity"),
    [
        (gpu_node(), "deny"),
        (gpu_node(**{"nvidia.com/mig.config": "halves"}), "warn"),
        (gpu_node(**{"nvidia.com/gpu.product": "Tesla-T4"}), "warn"),
    ],
)
def test_default_layout_must_exist_only_where_a_node_gets_it(findings_of, node, severity):
    assert [one[1] for one in findings_of("GA153", WITHOUT, policy(name="mig-config"), node)] == [severity]


def test_other_key_is_reported_at_that_key(examined):
    (found,) = [one for one in examined(config_map(HEAD, key="mig.yaml")) if one.rule.id == "GA149"]
    assert labelled_text(found) == (
        "data[mig.yaml]: is a file that the MIG manager does not read; it reads config.yaml and would not find it; "
        "rename the key to config.yaml [GA149]"
    )


def test_file_under_another_key_is_reviewed(findings_of):
    assert findings_of("GA150", "version: v2\n" + HEAD.removeprefix("version: v1\n"), key="mig.yaml")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{}", "has no config.yaml, which is the one file that the MIG manager reads"),
        ("[]", "has no config.yaml, which is the one file that the MIG manager reads"),
        ("{a: x, b: y}", 'has "a", "b" and no config.yaml, which is the one file that the MIG manager reads'),
        ("{config.yaml: 5}", "must be a string; the API server refuses it"),
        ("{config.yaml: ''}", "is empty, so every value of the label nvidia.com/mig.config fails"),
        ("{config.yaml: '[]'}", "is a list, not a mapping; mig-parted cannot read it"),
        ("{config.yaml: text}", "is a single value, not a mapping; mig-parted cannot read it"),
    ],
)
def test_invalid_file_is_refused(examined, data, said):
    text = config_map(HEAD).partition("\ndata:")[0] + f"\ndata: {data}"
    assert [(one.severity, one.message) for one in examined(text) if one.rule.id == "GA149"] == [("deny", said)]


def test_file_beyond_our_own_limit_is_warned_about(findings_of):
    body = HEAD + "".join(f"  layout-{number}: [{{devices: all, mig-enabled: false}}]\n" for number in range(2500))
    ((_, severity, message, *_),) = findings_of("GA149", body)
    assert severity == "warn"
    assert message.startswith(
        "is too large to be read here, and was not reviewed: more than 10000 documents, keys and values"
    )


def test_broken_yaml_is_reported_at_its_line(findings_of):
    ((_, severity, message, remedy, line),) = findings_of("GA149", "version: v1\nmig-configs:\n\tall: []\n")
    assert (severity, remedy, line) == ("deny", "correct line 3", 3)
    assert message.startswith("is not YAML in line 3: ")


def test_duplicate_name_is_warned_about_and_the_last_one_is_judged(findings_of):
    text = HEAD + "  all-disabled: []\n"
    ((_, severity, message, _, _),) = findings_of("GA149", text)
    assert (severity, "mig-parted would keep the last one" in message) == ("warn", True)
    assert "at least one entry in 'all-disabled' is required" in findings_of("GA150", text)[0][2]


def test_deleted_config_map_gives_no_finding(examined):
    found = examined("# operation: DELETE\n" + config_map("version: v2\n"))
    assert not [one for one in found if one.rule.id in ("GA149", "GA150", "GA153")]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("mig-configs: {a: [{devices: all, mig-enabled: false}]}", "unable to parse with missing 'version' field"),
        ("version: v2\nmig-configs: {a: [{devices: all, mig-enabled: false}]}", "unknown version: v2"),
        ("version:\nmig-configs: {a: [{devices: all, mig-enabled: false}]}", "unknown version:"),
        (HEAD + "bogus: 1", "unexpected field: bogus"),
        ("version: v1\nmig-configs: {}", "at least one entry in 'mig-configs' is required"),
        ("version: v1\nmig-configs:", "at least one entry in 'mig-configs' is required"),
        (HEAD + "  mine: []", "at least one entry in 'mine' is required"),
        (HEAD + "  mine:", "at least one entry in 'mine' is required"),
    ],
)
def test_what_mig_parted_refuses_is_quoted(findings_of, body, said):
    assert [message.partition("would report: ")[2] for _, _, message, *_ in findings_of("GA150", body)] == [said]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "version: 1\nmig-configs: {a: [{devices: all, mig-enabled: false}]}",
            "is 1, not a string; mig-parted cannot read it",
        ),
        ("version: v1", "has no mig-configs, so every value of the label nvidia.com/mig.config fails"),
        ("version: v1\nmig-configs: [a]", "must be a mapping of names to lists of entries; mig-parted cannot read it"),
        (HEAD + "  mine: {devices: all}", "must be a list of entries; mig-parted cannot read it"),
        (HEAD + "  mine: [all]", "must be a mapping; mig-parted cannot read it"),
    ],
)
def test_wrong_shape_is_refused(findings_of, body, said):
    assert [(severity, message) for _, severity, message, *_ in findings_of("GA150", body)] == [("deny", said)]


WITHOUT = "version: v1\nmig-configs:\n  halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]\n"


LACKS = "has no all-disabled, which the operator labels nodes with unless migManager.config.default is empty"


@pytest.mark.parametrize(
    ("cluster", "severity", "said"),
    [
        ((), "warn", LACKS + "; whether the ClusterPolicy names this ConfigMap is not known here"),
        ((policy(name="other"),), "warn", LACKS),
        ((policy(name="mig-config"),), "deny", LACKS),
        ((policy(name="mig-config", default="all-disabled"),), "deny", LACKS),
    ],
)
def test_missing_default_is_reported(findings_of, cluster, severity, said):
    remedy = "add all-disabled with - devices: all and mig-enabled: false"
    assert findings_of("GA153", WITHOUT, *cluster) == [("mig-configs", severity, said, remedy, 2)]


def test_unused_default_may_be_missing(findings_of):
    assert findings_of("GA153", WITHOUT, policy(name="mig-config", default="")) == []


def test_name_that_is_no_label_value_is_reported(findings_of):
    found = findings_of("GA153", HEAD + "  1g.10gb-2,3g.40gb-1: [{devices: all, mig-enabled: false}]\n")
    said = "cannot be the value of the label nvidia.com/mig.config, so no node can select it"
    assert [one[1:3] for one in found] == [("warn", said)]
