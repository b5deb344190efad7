"""mig-parted ConfigMaps: the file, its grammar, profiles that GPUs have, entries that reach them."""

import json
import textwrap

import pytest

HEAD = "version: v1\nmig-configs:\n  all-disabled: [{devices: all, mig-enabled: false}]\n"
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}
FAILED = ", so nvidia.com/mig.config.state would become failed"
INVALID = "mig-parted would report: error validating values in 'mig-devices' field"
LIST = 'compare with what "nvidia-smi mig -lgip" lists on the node'


def config_map(body, key="config.yaml", name="mig-config", label="labels: {gpu-admission.io/config: mig-parted}"):
    text = textwrap.indent(body, "    ")
    meta = f"metadata:\n  name: {name}\n  namespace: gpu-operator\n  {label}\n"
    return f"apiVersion: v1\nkind: ConfigMap\n{meta}data:\n  {key}: |-\n{text}\n"


def policy(**config):
    spec = {"migManager": {"config": config}}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "p"}, "spec": spec}


def node(name, config, labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, "nvidia.com/mig.config": config}},
    }


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA150", file)`: path inside the file, message and remedy of a rule's findings, and line of the file."""

    def tell(rule, body, *cluster, **kwargs):
        text = "\n---\n".join([config_map(body, **kwargs), *map(json.dumps, cluster)])
        return [
            (
                ".".join(map(str, one.path[2:])),
                str(one.severity),
                one.message,
                one.remedy,
                one.place.line if one.place else 0,
            )
            for one in examined(text)
            if one.rule.id == rule
        ]

    return tell


@pytest.fixture
def entry_findings(findings_of):
    """The same of the one entry of the configuration `mine`, written in one line."""

    def tell(rule, entry, *cluster, **kwargs):
        found = findings_of(rule, HEAD + f"  mine: [{entry}]\n", *cluster, **kwargs)
        return [(path.removeprefix("mig-configs.mine."), *rest[:3]) for path, *rest in found]

    return tell


# The file.


def test_other_key_is_reported_at_that_key(examined):
    (found,) = [one for one in examined(config_map(HEAD, key="mig.yaml")) if one.rule.id == "GA149"]
    assert str(found) == (
        "data[mig.yaml]: is a file that the MIG manager does not read; it reads config.yaml and would not find it; "
        "rename the key to config.yaml [GA149]"
    )


def test_file_under_another_key_is_judged_all_the_same(findings_of):
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
def test_file_that_is_none_is_refused(examined, data, said):
    text = config_map(HEAD).partition("\ndata:")[0] + f"\ndata: {data}"
    assert [(one.severity, one.message) for one in examined(text) if one.rule.id == "GA149"] == [("deny", said)]


def test_broken_yaml_is_reported_at_its_line(findings_of):
    ((_, severity, message, remedy, line),) = findings_of("GA149", "version: v1\nmig-configs:\n\tall: []\n")
    assert (severity, remedy, line) == ("deny", "correct line 3", 3)
    assert message.startswith("is not YAML in line 3: ")


def test_duplicate_name_is_refused(findings_of):
    assert "duplicate key" in findings_of("GA149", HEAD + "  all-disabled: []\n")[0][2]


def test_nothing_is_said_of_a_deleted_config_map(examined):
    found = examined("# operation: DELETE\n" + config_map("version: v2\n"))
    assert not [one for one in found if one.rule.id in ("GA149", "GA150", "GA153")]


# Grammar: mig-parted api/spec/v1/spec_test.go, and what encoding/json refuses.


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


@pytest.mark.parametrize(
    ("entry", "path", "said"),
    [
        ("{mig-enabled: false}", "0", "has no devices; mig-parted would report: missing required field: devices"),
        ("{devices: all}", "0", "has no mig-enabled; mig-parted would report: missing required field: mig-enabled"),
        (
            "{devices: all, mig-enabled: true}",
            "0.mig-devices",
            "is missing; mig-parted would report: missing required field 'mig-devices' when 'mig-enabled' is true",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: }",
            "0.mig-devices",
            "is missing; mig-parted would report: missing required field 'mig-devices' when 'mig-enabled' is true",
        ),
        (
            "{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 7}}",
            "0.mig-devices",
            "is not empty; mig-parted would report: MIG devices included when 'mig-enabled' is false",
        ),
        (
            "{devices: all, mig-enabled: false, device-filters: []}",
            "0.device-filters",
            "is unknown; mig-parted would report: unexpected field: device-filters",
        ),
        (
            "{devices: ALL, mig-enabled: false}",
            "0.devices",
            """is "ALL"; mig-parted would report: invalid string input for 'devices': ALL""",
        ),
        (
            "{devices: , mig-enabled: false}",
            "0.devices",
            "is empty; mig-parted would report: invalid string input for 'devices':",
        ),
        ("{devices: 0, mig-enabled: false}", "0.devices", "is 0, not a list; mig-parted cannot read it"),
        (
            "{devices: ['0'], mig-enabled: false}",
            "0.devices.0",
            'is "0", not a whole number; mig-parted cannot read it',
        ),
        (
            "{devices: [0.5], mig-enabled: false}",
            "0.devices.0",
            "is 0.5, not a whole number; mig-parted cannot read it",
        ),
        ("{devices: all, mig-enabled: 'true'}", "0.mig-enabled", 'is "true", not a boolean; mig-parted cannot read it'),
        (
            "{devices: all, mig-enabled: false, device-filter: 0x20B010DE}",
            "0.device-filter",
            "is 548409566, not a string; mig-parted cannot read it",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: [1g.5gb]}",
            "0.mig-devices",
            "is a list and no mapping of profiles to numbers; mig-parted cannot read it",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}",
            "0.mig-devices",
            f"has no count above 0; {INVALID}: all counts for all MigProfiles are 0",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1, 2g.10gb: 1}}",
            "0.mig-devices.1g.5gb",
            f"is -1; {INVALID}: invalid count for '-1'",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: '7'}}",
            "0.mig-devices.1g.5gb",
            'is "7", not a whole number; mig-parted cannot read it',
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5: 7}}",
            "0.mig-devices.1g.5",
            f"is not a MIG profile; {INVALID}: invalid format for '1g.5'",
        ),
    ],
)
def test_entry_that_mig_parted_refuses_is_reported(entry_findings, entry, path, said):
    assert [found[:3] for found in entry_findings("GA150", entry)] == [(path, "deny", said)]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("1g.10gb.me", 'write "1g.10gb+me"'),
        ("mig-1g.10gb", 'write "1g.10gb"'),
        ("nvidia.com/mig-1g.10gb", 'write "1g.10gb"'),
        ("1G.10GB", 'write "1g.10gb"'),
        ("half", "write a profile such as 1g.10gb, 3g.40gb or 1g.10gb+me"),
    ],
)
def test_profile_in_another_spelling_is_corrected(entry_findings, name, remedy):
    found = entry_findings("GA150", f"{{devices: all, mig-enabled: true, mig-devices: {{{name}: 1}}}}")
    assert [one[3] for one in found] == [remedy]


def test_number_in_place_of_a_device_id_is_corrected(entry_findings):
    found = entry_findings("GA150", "{devices: all, mig-enabled: false, device-filter: [0x20B010DE]}")
    assert found[0][3] == 'write "0x20B010DE", in quotes'


@pytest.mark.parametrize(
    "entry",
    [
        "{devices: all, mig-enabled: false}",
        "{devices: all, mig-enabled: false, mig-devices: {}}",
        "{devices: all, mig-enabled: true, mig-devices: {}}",
        "{devices: [0, 1], mig-enabled: true, mig-devices: {1g.5gb: 7}}",
        "{device-filter: '0x20B010DE', devices: all, mig-enabled: true, mig-devices: {1g.5gb: 2, 2g.10gb: 0}}",
        "{device-filter: ['0x20B010DE', '0x20B110DE'], devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7.0}}",
        "{devices: all, mig-enabled: true, mig-devices: {1c.3g.20gb: 6}}",
        "{device-filter: '0x2BB510DE', devices: all, mig-enabled: true, mig-devices: {1g.24gb-me: 4}}",
        "{device-filter: '0x294110DE', devices: all, mig-enabled: true, mig-devices: {3g.95gb: 2}}",
        "{device-filter: '0xFFFF10DE', devices: all, mig-enabled: true, mig-devices: {9g.999gb: 9}}",
    ],
)
def test_valid_entry_is_left_alone(examined, entry):
    assert examined(config_map(HEAD + f"  mine: [{entry}]\n")) == ()


# Profiles.


@pytest.mark.parametrize(
    ("entry", "path", "severity", "said", "remedy"),
    [
        (
            "{device-filter: '0x20B010DE', devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1}}",
            "0.mig-devices.3g.40gb",
            "deny",
            f"is not a profile of A100 40GB (1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb){FAILED}",
            'write "3g.20gb"',
        ),
        (
            "{device-filter: '0x20B210DE', devices: all, mig-enabled: true, mig-devices: {7g.79gb: 1}}",
            "0.mig-devices.7g.79gb",
            "warn",
            'is called "7g.80gb" on A100 80GB; names differ by a little between drivers',
            LIST,
        ),
        (
            "{device-filter: '0x20B710DE', devices: all, mig-enabled: true, mig-devices: {1g.6gb: 3, 2g.12gb: 1}}",
            "0.mig-devices",
            "deny",
            f"needs 5 of 4 memory slices of A30{FAILED}",
            "lower the counts, or use smaller profiles",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}",
            "0.mig-devices",
            "deny",
            f"needs 9 of 8 memory slices of A100 40GB{FAILED}",
            "lower the counts, or use smaller profiles",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.7gb: 1}}",
            "0.mig-devices.1g.7gb",
            "warn",
            'is called "1g.6gb" by most drivers; names differ by a little between them',
            LIST,
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {5g.40gb: 1}}",
            "0.mig-devices.5g.40gb",
            "warn",
            "is not a profile of a GPU that is known here",
            LIST,
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 1, 3g.40gb: 1}}",
            "0.mig-devices",
            "warn",
            "has 1g.5gb, 3g.40gb, which no single GPU known here has together",
            "write an entry with a device-filter for each kind of GPU",
        ),
    ],
)
def test_impossible_profiles_are_reported(entry_findings, entry, path, severity, said, remedy):
    assert entry_findings("GA151", entry) == [(path, severity, said, remedy)]


def test_nodes_that_use_the_configuration_are_warned_about(entry_findings):
    found = entry_findings(
        "GA151",
        "{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}",
        policy(name="mig-config"),
        node("a100", "mine", A100),
    )
    said = "is not a profile of A100 40GB (1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb)"
    where = ', the GPU of the node "a100" with this configuration'
    assert found == [("0.mig-devices.3g.40gb", "warn", said + where + FAILED, 'write "3g.20gb"')]


@pytest.mark.parametrize(
    ("config", "selected"), [("another", "mine"), ("mig-config", "all-disabled"), ("mig-config", "other")]
)
def test_nodes_that_use_something_else_are_not(entry_findings, config, selected):
    entry = "{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}"
    assert entry_findings("GA151", entry, policy(name=config), node("a100", selected, A100)) == []


# Reach.


@pytest.mark.parametrize(
    ("item", "remedy"),
    [
        ("NVIDIA A30", 'write "0x20B710DE"'),
        ("A100-SXM4-40GB", 'write ["0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"]'),
        ("20B010DE", 'write "0x20B010DE"'),
        ("0x10DE20B0", 'write "0x20B010DE"'),
        ("0x20b0", 'write "0x20B010DE"'),
        ("0x20B010DE:0x1:0x2", 'write a PCI id, the device before the vendor, such as "0x20B010DE"'),
        ("0x20B010DE:board", 'write a PCI id, the device before the vendor, such as "0x20B010DE"'),
        ("0x120B010DE", 'write a PCI id, the device before the vendor, such as "0x20B010DE"'),
    ],
)
def test_filter_that_matches_no_gpu_is_reported(entry_findings, item, remedy):
    found = entry_findings("GA152", f"{{device-filter: '{item}', devices: all, mig-enabled: false}}")
    said = f'is "{item}", which is not a PCI id of an NVIDIA GPU, so it matches none; mig-parted does not say so'
    assert found == [("0.device-filter", "warn", said, remedy)]


@pytest.mark.parametrize(
    ("devices", "said"),
    [("[]", "is empty, so the entry is for no GPU"), ("[0, -1]", "has -1, which is the number of no GPU")],
)
def test_devices_that_no_node_has_are_reported(entry_findings, devices, said):
    assert [found[2] for found in entry_findings("GA152", f"{{devices: {devices}, mig-enabled: false}}")] == [said]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("devices: all", "devices: [0]"),
        ("devices: [0, 1]", "devices: [1]"),
        ("devices: all", "devices: all, device-filter: '0x20B010DE'"),
        ("devices: all, device-filter: ['0x20B010DE', '0x20B110DE']", "devices: all, device-filter: '0x20b010de'"),
        ("devices: all, device-filter: '0x20B010DE'", "devices: all, device-filter: '0x20B010DE:0x1'"),
    ],
)
def test_entries_for_the_same_gpu_are_reported(entry_findings, first, second):
    found = entry_findings(
        "GA152", f"{{{first}, mig-enabled: false}}, {{{second}, mig-enabled: true, mig-devices: {{}}}}"
    )
    said = "is for GPUs that entry 0 of mine is for already, and is applied after it"
    assert found == [("1", "warn", said, "tell the GPUs apart by device-filter or devices")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("devices: [0]", "devices: [1]"),
        ("devices: all, device-filter: '0x20B010DE'", "devices: all, device-filter: '0x20B110DE'"),
        ("devices: all, device-filter: '0x20B010DE:0x2'", "devices: all, device-filter: '0x20B010DE:0x1'"),
    ],
)
def test_entries_for_different_gpus_are_not(entry_findings, first, second):
    assert (
        entry_findings("GA152", f"{{{first}, mig-enabled: false}}, {{{second}, mig-enabled: true, mig-devices: {{}}}}")
        == []
    )


def test_entries_that_say_the_same_are_not(entry_findings):
    assert entry_findings("GA152", "{devices: all, mig-enabled: false}, {devices: [0], mig-enabled: false}") == []


# Names.

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


def test_missing_default_that_nobody_wants_is_fine(findings_of):
    assert findings_of("GA153", WITHOUT, policy(name="mig-config", default="")) == []


def test_name_that_is_no_label_value_is_reported(findings_of):
    found = findings_of("GA153", HEAD + "  1g.10gb-2,3g.40gb-1: [{devices: all, mig-enabled: false}]\n")
    said = "cannot be the value of the label nvidia.com/mig.config, so no node can select it"
    assert [one[1:3] for one in found] == [("warn", said)]
