"""Values in device-plugin configurations, by the tables of upstream's own unit tests.

Cases that upstream rejects only for a trailing comma are valid JSON here, and are rejected for their meaning.
"""

import json

import pytest

from tests.configuration.device_plugin.documents import GPU, findings_of, found_in, refused, shares
from tests.findings import plain_text

UUID = "b1028956-cfa2-0990-bf4a-5da9abb51763"


@pytest.mark.parametrize(
    "devices",
    [
        "not-all",
        -2,
        2.5,
        0,
        [-1],
        ["-1"],
        ["invalid-UUID"],
        ["GPU-UUID"],
        ["MIG-UUID"],
        [f"MIG-GPU-{UUID}"],
        {},
        None,
        True,
        [1.5],
        [None],
    ],
    ids=json.dumps,
)
def test_devices_that_upstream_rejects_are_refused(devices):
    assert [found.rule.id for found in refused(shares({**GPU, "devices": devices}))] == ["GA134"]


@pytest.mark.parametrize(
    "devices",
    [
        "all",
        2,
        [0],
        ["0"],
        ["0:0"],
        [f"GPU-{UUID}"],
        [f"MIG-{UUID}"],
        [f"MIG-GPU-{UUID}/0/0"],
        [0, "0:0", f"GPU-{UUID}"],
        ["0", "0:0", f"GPU-{UUID}"],
        [],
    ],
    ids=json.dumps,
)
def test_devices_that_upstream_accepts_are_not_refused(devices):
    assert not refused(shares({**GPU, "devices": devices}))


def test_a_count_with_a_point_is_whole_once_yaml_has_been_read():
    assert not refused(
        '{"sharing": {"timeSlicing": {"resources": [{"name": "gpu", "replicas": 4.0, "devices": 2.0}]}}}'
    )


@pytest.mark.parametrize(
    ("resource", "rules"),
    [
        ({}, ["GA132", "GA136"]),
        ({"name": "valid"}, ["GA132"]),
        ({"name": "valid", "devices": "all"}, ["GA132"]),
        ({"name": "valid", "devices": "all", "rename": "valid-shared"}, ["GA132"]),
        ({"name": "valid", "devices": "all", "replicas": -1}, ["GA132"]),
        ({"name": "valid", "devices": "all", "replicas": 0}, ["GA132"]),
        ({"name": "$invalid$", "devices": "all", "replicas": 2}, ["GA136"]),
        ({"name": "valid", "devices": "all", "replicas": 2, "rename": "$invalid$"}, ["GA134"]),
        ({"name": "valid", "devices": "all", "replicas": 2, "rename": None}, ["GA134"]),
        ({"name": "valid", "devices": "all", "replicas": 2}, []),
        ({"name": "valid", "devices": "all", "replicas": 2, "rename": "valid-shared"}, []),
        ({"name": "valid", "replicas": 2}, []),
        ({"name": "valid", "replicas": 2, "rename": "valid-shared"}, []),
        ({"name": "nvidia.com/" + "a" * 53, "replicas": 2}, ["GA136"]),
        ({"name": 7, "replicas": 2}, ["GA136"]),
        ({"name": None, "replicas": 2}, ["GA136"]),
    ],
    ids=json.dumps,
)
def test_resources_are_read_as_upstream_reads_them(resource, rules):
    assert sorted(found.rule.id for found in refused(shares(resource))) == rules


@pytest.mark.parametrize("sharing", [{}, {"resources": []}, {"resources": None}, None, "text", {"resources": {}}])
def test_a_strategy_without_resources_is_refused(sharing):
    assert [found.rule.id for found in refused({"sharing": {"timeSlicing": sharing}})] == ["GA136"]


def test_an_empty_mps_is_absent():
    assert found_in({"version": "v1", "sharing": {"mps": None}}) == ()


def test_two_resources_are_accepted():
    assert found_in(shares(GPU, {"name": "nvidia.com/mig-1g.5gb", "replicas": 2})) == ()


@pytest.mark.parametrize("fails", [None, True, False])
def test_mps_may_choose_what_becomes_of_larger_requests(fails):
    chosen = {} if fails is None else {"failRequestsGreaterThanOne": fails}
    assert found_in(shares(GPU, strategy="mps", **chosen)) == ()


@pytest.mark.parametrize("imex", [{}, {"channelIDs": None}, {"channelIDs": []}, {"channelIDs": [0], "required": True}])
def test_imex_that_upstream_accepts_gives_no_finding(imex):
    assert found_in({"version": "v1", "imex": imex}) == ()


@pytest.mark.parametrize(
    ("channels", "text"),
    [
        (
            [2],
            (
                "data.any.imex.channelIDs: is [2]; the device plugin would exit with: invalid IMEX config: channelIDs must be "
                "[] or [0]; found [2]; write [0], or remove it"
            ),
        ),
        (
            [0, 0],
            (
                "data.any.imex.channelIDs: is [0, 0]; the device plugin would exit with: invalid IMEX config: channelIDs must "
                "be [] or [0]; found [0 0]; write [0], or remove it"
            ),
        ),
        (
            "0",
            (
                'data.any.imex.channelIDs: is "0"; the device plugin would exit, unable to parse its config file; write [] or '
                "[0]"
            ),
        ),
    ],
)
def test_other_imex_channels_are_refused(channels, text):
    assert findings_of({"version": "v1", "imex": {"channelIDs": channels}}) == [("GA134", text)]


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"gfd": {}},
        {"gfd": None},
        {"gfd": {"sleepInterval": 0}},
        {"gfd": {"sleepInterval": "0s"}},
        {"gfd": {"sleepInterval": "5s"}},
        {"gfd": {"sleepInterval": "1h2m.5s"}},
        {"gfd": {"sleepInterval": "infinite"}},
        {"gfd": {"sleepInterval": 60_000_000_000}},
        {"plugin": {"deviceListStrategy": "envvar"}},
        {"plugin": {"deviceListStrategy": ["envvar", "cdi-annotations"]}},
        {"FailOnInitError": True},
    ],
    ids=json.dumps,
)
def test_flags_that_upstream_accepts_give_no_finding(flags):
    assert found_in({"version": "v1", "flags": flags}) == ()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (
            {"migStrategy": "all"},
            (
                'flags.migStrategy: is "all"; the device plugin would exit with: unknown MIG strategy: all; write one of none, '
                "single, mixed"
            ),
        ),
        (
            {"migStrategy": "mxied"},
            'flags.migStrategy: is "mxied"; the device plugin would exit with: unknown MIG strategy: mxied; write "mixed"',
        ),
        (
            {"migStrategy": True},
            (
                "flags.migStrategy: is true; the device plugin would exit, unable to parse its config file; write one of "
                '"none", "single", "mixed"'
            ),
        ),
        (
            {"failOnInitError": "yes"},
            (
                'flags.failOnInitError: is "yes"; the device plugin would exit, unable to parse its config file; write true or '
                "false, without quotes"
            ),
        ),
        (
            {"deviceDiscoveryStrategy": "vfio"},
            (
                'flags.deviceDiscoveryStrategy: is "vfio"; the device plugin would exit with: invalid '
                "--device-discovery-strategy option vfio; write one of auto, nvml, tegra"
            ),
        ),
        (
            {"plugin": {"deviceListStrategy": ["envvar", "cdi"]}},
            (
                'flags.plugin.deviceListStrategy[1]: is "cdi"; the device plugin would exit with: invalid '
                "--device-list-strategy option: invalid strategy: cdi; write one of envvar, volume-mounts, cdi-annotations, "
                "cdi-cri"
            ),
        ),
        (
            {"plugin": {"deviceIDStrategy": "name"}},
            (
                'flags.plugin.deviceIDStrategy: is "name"; the device plugin would exit with: invalid --device-id-strategy '
                "option: name; write one of uuid, index"
            ),
        ),
        (
            {"plugin": {"sharedDevicesAllocationPolicy": "spread"}},
            (
                'flags.plugin.sharedDevicesAllocationPolicy: is "spread"; the device plugin would exit with: invalid '
                "--shared-devices-allocation-policy option: spread; write one of distributed, packed"
            ),
        ),
        (
            {"gfd": {"sleepInterval": 5}},
            (
                "flags.gfd.sleepInterval: is the number 5, which is read as nanoseconds; GPU Feature Discovery would never "
                'rest; write "5s"'
            ),
        ),
        (
            {"gfd": {"sleepInterval": "60"}},
            (
                'flags.gfd.sleepInterval: is "60"; the device plugin would exit with: time: missing unit in duration "60"; '
                'write "60s"'
            ),
        ),
        (
            {"gfd": {"sleepInterval": "1 day"}},
            (
                'flags.gfd.sleepInterval: is "1 day"; the device plugin would exit with: time: invalid duration "1 day"; write '
                'a duration such as "60s", or "infinite"'
            ),
        ),
        (
            {"gfd": {"sleepInterval": True}},
            (
                "flags.gfd.sleepInterval: is true; the device plugin would exit with: invalid duration; write a duration such "
                'as "60s", or "infinite"'
            ),
        ),
        (
            {"gfd": []},
            "flags.gfd: is []; the device plugin would exit, unable to parse its config file; write a mapping",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else json.dumps(value),
)
def test_values_of_flags_are_those_that_the_plugin_reads(flags, text):
    assert findings_of({"version": "v1", "flags": flags}) == [("GA134", f"data.any.{text}")]


@pytest.mark.parametrize("version", ["v1", "", None])
def test_version_may_be_v1_or_nothing(version):
    assert found_in({"version": version}) == ()


@pytest.mark.parametrize(("version", "shown", "named"), [("v2", '"v2"', "v2"), (1, "1", "1")])
def test_other_versions_are_refused(version, shown, named):
    expected = f"data.any.version: is {shown}; the device plugin would exit with: unknown version: {named}; write v1"
    assert findings_of({"version": version}) == [("GA134", expected)]


def test_custom_resources_need_pattern_and_name():
    found = refused({"resources": {"gpus": [{"pattern": "*"}], "mig": [{"name": "nvidia.com/slice"}, 3]}})
    assert [(one.rule.id, plain_text(one)) for one in found] == [
        (
            "GA134",
            (
                "data.any.resources.gpus[0]: has no name; the device plugin would exit with: resources must have a 'name' "
                "field set; add name"
            ),
        ),
        (
            "GA134",
            (
                "data.any.resources.mig[0]: has no pattern; the device plugin would exit with: resources must have a "
                "'pattern' field set; add pattern"
            ),
        ),
        (
            "GA134",
            (
                "data.any.resources.mig[1]: is 3; the device plugin would exit, unable to parse its config file; write a "
                "mapping"
            ),
        ),
    ]
