"""Entries of mig-parted configurations: profiles that GPUs have, and filters that match GPUs."""

import json

import pytest

from tests.configuration.mig_parted.config_maps import HEAD, config_map, policy

A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"}


FAILED = "; nvidia.com/mig.config.state would become failed"
NO_DEVICES = "; the GPUs would have MIG enabled and no MIG devices"
WOULD = "mig-parted would report: "


INVALID = "mig-parted would report: error validating values in 'mig-devices' field"


LIST = 'compare with what "nvidia-smi mig -lgip" lists on the node'


@pytest.mark.parametrize("devices", ["1g5gb: 7", "mig-1g.5gb: 7", "1g.5gb: 0", "1g.5gb: -1"])
def test_entry_that_mig_parted_refuses_is_reported_once(examined, devices):
    layout = f"{HEAD}  x: [{{devices: all, mig-enabled: true, mig-devices: {{{devices}}}}}]\n"
    used = json.dumps(node("a", "x", A100)), json.dumps({**policy(name="mig-config")})
    found = examined("\n---\n".join([config_map(layout), *used]))
    assert [one.rule.id for one in found if one.path[:1] == ("data",)] == ["GA150"]


def node(name, config, labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, "nvidia.com/mig.config": config}},
    }


@pytest.fixture
def entry_findings(findings_of):
    """The same of the one entry of the configuration `mine`, written in one line."""

    def tell(rule, entry, *cluster, **kwargs):
        found = findings_of(rule, HEAD + f"  mine: [{entry}]\n", *cluster, **kwargs)
        return [(path.removeprefix("mig-configs.mine."), *rest[:3]) for path, *rest in found]

    return tell


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
        (
            "{devices: 0, mig-enabled: false}",
            "0.devices",
            (
                f"is 0, not a list; {WOULD}(json: cannot unmarshal number into Go value of type string, json: cannot unmarshal "
                "number into Go value of type []int)"
            ),
        ),
        (
            "{devices: ['0'], mig-enabled: false}",
            "0.devices.0",
            (
                f'is "0", not a whole number; {WOULD}(json: cannot unmarshal array into Go value of type string, json: cannot '
                "unmarshal string into Go value of type int)"
            ),
        ),
        (
            "{devices: [0.5], mig-enabled: false}",
            "0.devices.0",
            (
                f"is 0.5, not a whole number; {WOULD}(json: cannot unmarshal array into Go value of type string, json: cannot "
                "unmarshal number 0.5 into Go value of type int)"
            ),
        ),
        (
            "{devices: all, mig-enabled: 'true'}",
            "0.mig-enabled",
            f'is "true", not a boolean; {WOULD}json: cannot unmarshal string into Go value of type bool',
        ),
        (
            "{devices: all, mig-enabled: false, device-filter: 0x20B010DE}",
            "0.device-filter",
            (
                f"is 548409566, not a string; {WOULD}(json: cannot unmarshal number into Go value of type string, json: cannot "
                "unmarshal number into Go value of type []string)"
            ),
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: [1g.5gb]}",
            "0.mig-devices",
            (
                f"is a list, not a mapping of profiles to numbers; {WOULD}json: cannot unmarshal array into Go value of type "
                "types.MigConfig"
            ),
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 0}}",
            "0.mig-devices",
            f"has no count above 0; {INVALID}: all counts for all MigProfiles are 0",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: -1, 2g.10gb: 1}}",
            "0.mig-devices.1g.5gb",
            f"is -1; {INVALID}: invalid count for '-1': <nil>",
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: '7'}}",
            "0.mig-devices.1g.5gb",
            f'is "7", not a whole number; {WOULD}json: cannot unmarshal string into Go struct field MigConfig.1g.5gb of type int',
        ),
        (
            "{devices: all, mig-enabled: true, mig-devices: {1g.5: 7}}",
            "0.mig-devices.1g.5",
            f"is not a MIG profile; {INVALID}: invalid format for '1g.5': cannot parse fields of '1g.5': missing 'gb' from '%dgb'",
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


@pytest.mark.parametrize(
    ("entry", "path", "severity", "said", "remedy"),
    [
        (
            "{device-filter: '0x20B010DE', devices: all, mig-enabled: true, mig-devices: {3g.40gb: 1}}",
            "0.mig-devices.3g.40gb",
            "deny",
            f"is not a profile of A100 40GB (1g.5gb, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb){NO_DEVICES}",
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
    where = ', on the node "a100" with this configuration'
    assert found == [("0.mig-devices.3g.40gb", "warn", said + where + NO_DEVICES, 'write "3g.20gb"')]


HALF_READY = """\
  mine:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.20gb: 2}}
  - {devices: [1], mig-enabled: true, mig-devices: {}}
"""
PAIR = {**A100, "nvidia.com/gpu.count": "2"}
EXITS = (
    'does not go with mig.strategy "single" on the node "a100" with this configuration: it enables MIG on GPU 1 and makes '
    "no devices there; the device plugin would exit with: device 1 has no MIG devices configured"
)


def single(**spec):
    found = policy(name="mig-config")
    return {**found, "spec": {**found["spec"], "mig": {"strategy": "single"}, **spec}}


def test_configuration_at_which_the_device_plugin_exits_is_refused_where_a_node_selects_it(findings_of):
    found = findings_of("GA151", HEAD + HALF_READY, single(), node("a100", "mine", PAIR))
    assert [each[:3] for each in found] == [("mig-configs.mine", "deny", EXITS)]


@pytest.mark.parametrize(
    "cluster",
    [
        (),
        (single(),),
        (policy(name="mig-config"), node("a100", "mine", PAIR)),
        (single(), node("a100", "all-disabled", PAIR)),
        (single(devicePlugin={"enabled": False}), node("a100", "mine", PAIR)),
        (single(), node("a100", "mine", {**PAIR, "nvidia.com/gpu.count": "1"})),
    ],
)
def test_gpus_without_devices_are_left_alone_where_no_device_plugin_exits(findings_of, cluster):
    assert findings_of("GA151", HEAD + HALF_READY, *cluster) == []


def test_configuration_that_a_change_keeps_is_only_warned_about(examined):
    text = config_map(HEAD + HALF_READY)
    old = config_map(HEAD + HALF_READY + "  other: [{devices: all, mig-enabled: false}]\n")
    cluster = [single(), node("a100", "mine", PAIR)]
    found = examined("\n---\n".join([f"{text}--- # before\n{old}", *map(json.dumps, cluster)]))
    assert [str(each.severity) for each in found if each.rule.id == "GA151"] == ["warn"]


def test_profile_that_leaves_gpus_without_devices_is_refused_where_the_device_plugin_exits(entry_findings):
    entry = "{devices: all, mig-enabled: true, mig-devices: {3g.21gb: 2}}"
    found = entry_findings("GA151", entry, single(), node("a100", "mine", A100))
    said = f'is called "3g.20gb" on A100 40GB, on the node "a100" with this configuration{NO_DEVICES}'
    assert found == [("0.mig-devices.3g.21gb", "deny", said, 'write "3g.20gb"')]


IMPOSSIBLE = "{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 8}}"
UNNAMED = "the ClusterPolicy does not name this ConfigMap, so nothing reads it yet"


@pytest.mark.parametrize(
    ("cluster", "reason"),
    [
        ((policy(name="another"),), UNNAMED),
        ((policy(name="mig-config"),), 'neither the default nor a known node selects "mine", so nothing reads it yet'),
        (
            (policy(name="mig-config"), node("a100", "other", A100)),
            'neither the default nor a node selects "mine", so nothing reads it yet',
        ),
    ],
)
def test_impossible_configuration_that_nothing_reads_is_only_warned_about(entry_findings, cluster, reason):
    found = entry_findings("GA151", IMPOSSIBLE, *cluster)
    assert [(each[1], each[2].endswith(reason)) for each in found] == [("warn", True)]


@pytest.mark.parametrize(
    "cluster",
    [(), (policy(name="mig-config", default="mine"),), (policy(name="mig-config"), node("a100", "mine", A100))],
)
def test_impossible_configuration_that_may_be_read_is_refused(entry_findings, cluster):
    assert [each[1] for each in entry_findings("GA151", IMPOSSIBLE, *cluster)] == ["deny"]


def test_unreadable_entry_is_refused_where_the_file_is_read_and_only_warned_about_elsewhere(entry_findings):
    unreadable = "{devices: all}"
    for name, severity in (("mig-config", "deny"), ("another", "warn")):
        found = entry_findings("GA150", unreadable, policy(name=name))
        assert [each[1] for each in found] == [severity]


def test_node_whose_gpus_mig_cannot_divide_is_warned_about(entry_findings):
    found = entry_findings(
        "GA151",
        "{devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2}}",
        policy(name="mig-config"),
        node("t4", "mine", {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.count": "1"}),
    )
    said = f"is for GPU 0, which MIG cannot divide; {WOULD}cannot set MIG mode on non MIG-capable GPU"
    where = ', on the node "t4" with this configuration'
    assert found == [("0.mig-devices", "warn", said + where + FAILED, "remove these GPUs from devices")]


@pytest.mark.parametrize(
    ("config", "selected"), [("another", "mine"), ("mig-config", "all-disabled"), ("mig-config", "other")]
)
def test_nodes_with_another_configuration_are_not_warned_about(entry_findings, config, selected):
    entry = "{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}"
    assert entry_findings("GA151", entry, policy(name=config), node("a100", selected, A100)) == []


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
def test_entries_with_different_modes_for_the_same_gpu_are_reported(entry_findings, first, second):
    off, on = f"{{{first}, mig-enabled: false}}", f"{{{second}, mig-enabled: true, mig-devices: {{1g.5gb: 7}}}}"
    said = f"is for GPUs that entry 0 of mine is for already, with another mig-enabled; {WOULD}"
    still = "MIG mode is currently enabled, but the configuration specifies it should be disabled"
    remedy = "tell the GPUs apart by device-filter or devices"
    assert entry_findings("GA152", f"{off}, {on}") == [("1", "warn", said + still, remedy)]
    disabled = "unable to apply MIG config with MIG mode disabled"
    assert entry_findings("GA152", f"{on}, {off}") == [("1", "warn", said + disabled, remedy)]


def test_entry_that_later_ones_undo_is_reported(entry_findings):
    enabled = "mig-enabled: true, mig-devices"
    found = entry_findings(
        "GA152", f"{{devices: [1], {enabled}: {{2g.10gb: 3}}}}, {{devices: all, {enabled}: {{1g.5gb: 7}}}}"
    )
    said = "has no effect, because entry 1 of mine is for the same GPUs and applied after it"
    assert found == [("0", "warn", said, "remove it, or move it to the end")]


def test_later_entry_for_some_gpus_is_left_alone(examined):
    enabled = "mig-enabled: true, mig-devices"
    entries = f"{{devices: all, {enabled}: {{1g.5gb: 7}}}}, {{devices: [1], {enabled}: {{2g.10gb: 3}}}}"
    assert examined(config_map(HEAD + f"  mine: [{entries}]\n")) == ()


def test_mode_that_a_later_entry_enables_without_devices_is_left_alone(entry_findings):
    assert (
        entry_findings(
            "GA152", "{devices: all, mig-enabled: false}, {devices: [0], mig-enabled: true, mig-devices: {}}"
        )
        == []
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("devices: [0]", "devices: [1]"),
        ("devices: all, device-filter: '0x20B010DE'", "devices: all, device-filter: '0x20B110DE'"),
        ("devices: all, device-filter: '0x20B010DE:0x2'", "devices: all, device-filter: '0x20B010DE:0x1'"),
    ],
)
def test_entries_for_different_gpus_are_not_reported(entry_findings, first, second):
    assert (
        entry_findings("GA152", f"{{{first}, mig-enabled: false}}, {{{second}, mig-enabled: true, mig-devices: {{}}}}")
        == []
    )


def test_equal_entries_are_not_reported(entry_findings):
    assert entry_findings("GA152", "{devices: all, mig-enabled: false}, {devices: [0], mig-enabled: false}") == []
