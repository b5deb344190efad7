"""The grammar of device-plugin configurations: the tables of upstream's own unit tests, and what upstream never checks.

Cases that upstream rejects only for a trailing comma are written here as valid JSON, and are rejected for their meaning.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.decision import Severity
from policies.request import Request
from policies.review import review
from policies.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

UUID = "b1028956-cfa2-0990-bf4a-5da9abb51763"
OURS = {"gpu-admission.io/config": "device-plugin"}


def config_map(data, **metadata):
    described = {"name": "time-slicing", "namespace": "gpu-operator", "labels": OURS, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": described, "data": data}


def reviewed(document, old=None):
    operation = "UPDATE" if old else "CREATE"
    request = Request(
        document, old, operation=operation, kind="ConfigMap", namespace="gpu-operator", name="time-slicing"
    )
    return review(request, ManifestsView(), DEFAULTS).findings


def found_in(value):
    """The findings on a document, given as text or as what JSON would say of it."""
    return reviewed(config_map({"any": value if isinstance(value, str) else json.dumps(value)}))


def refused(value):
    return [finding for finding in found_in(value) if finding.severity is Severity.DENY]


def findings_of(value):
    return [(finding.rule.id, finding.text) for finding in found_in(value)]


def shares(*resources, strategy="timeSlicing", **fields):
    return {"version": "v1", "sharing": {strategy: {**fields, "resources": list(resources)}}}


GPU = {"name": "nvidia.com/gpu", "replicas": 2}


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
    assert [(one.rule.id, one.text) for one in found] == [
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


NO_FIELD = "unknown field: the device plugin ignores it silently"


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"flag": {}}, f'data.any.flag: {NO_FIELD}; write "flags"'),
        ({"timeSlicing": {}}, f"data.any.timeSlicing: {NO_FIELD}; indent it below sharing"),
        ({"migStrategy": "none"}, f"data.any.migStrategy: {NO_FIELD}; indent it below flags"),
        (
            {"flags": {"passDeviceSpecs": True}},
            f"data.any.flags.passDeviceSpecs: {NO_FIELD}; indent it below flags.plugin",
        ),
        ({"mig": {"strategy": "mixed"}}, f"data.any.mig: {NO_FIELD}; write flags: {{migStrategy: mixed}}"),
        ({"resources": {"migs": []}}, f'data.any.resources.migs: {NO_FIELD}; write "mig"'),
        (
            {"sharing": {"resources": [GPU]}},
            f"data.any.sharing.resources: {NO_FIELD}; indent it below timeSlicing or mps",
        ),
        ({"sharing": {"timeslice": {}}}, f'data.any.sharing.timeslice: {NO_FIELD}; write "timeSlicing"'),
        (
            shares({**GPU, "device": "all"}),
            f'data.any.sharing.timeSlicing.resources[0].device: {NO_FIELD}; write "devices"',
        ),
        (
            {"nodes": []},
            f"data.any.nodes: {NO_FIELD}; remove it; there are version, flags, resources, sharing, imex",
        ),
        (
            {"flags": {}, "Flags": {}},
            'data.any.Flags: is the same field as "flags"; the device plugin reads one of them; keep one of them',
        ),
    ],
    ids=json.dumps,
)
def test_unknown_fields_are_refused_with_a_suggestion(document, text):
    (found,) = refused(document)
    assert (found.rule.id, found.text) == ("GA135", text)


def test_an_unknown_field_that_may_be_newer_only_warns():
    (found,) = found_in({"flags": {"quantumRouting": True}})
    assert (found.rule.id, found.severity) == ("GA135", Severity.WARN)
    assert found.text.startswith(f"data.any.flags.quantumRouting: {NO_FIELD}; remove it; there are migStrategy, ")


def test_fields_of_structs_count_in_any_case():
    document = {"Version": "v1", "Sharing": {"TIMESLICING": {"resources": [{**GPU, "replicas": 1}]}}}
    assert [(found.rule.id, str(found.path)) for found in found_in(document)] == [
        ("GA132", "data.any.Sharing.TIMESLICING.resources[0].replicas")
    ]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            shares({"name": "nvidia.com/gpu", "Replicas": 4}),
            (
                "GA132",
                (
                    "data.any.sharing.timeSlicing.resources[0].Replicas: is not read, because here a field counts only in its "
                    'exact spelling; the device plugin would exit with: no replicas specified; write "replicas"'
                ),
            ),
        ),
        (
            shares({"Name": "nvidia.com/gpu", "replicas": 4}),
            (
                "GA136",
                (
                    "data.any.sharing.timeSlicing.resources[0].Name: is not read, because here a field counts only in its "
                    'exact spelling; the device plugin would exit with: no resource name specified; write "name"'
                ),
            ),
        ),
        (
            {"sharing": {"timeSlicing": {"Resources": [GPU]}}},
            (
                "GA136",
                (
                    "data.any.sharing.timeSlicing.Resources: is not read, because here a field counts only in its exact "
                    'spelling; the device plugin would exit with: no resources specified; write "resources"'
                ),
            ),
        ),
    ],
    ids=["replicas", "name", "resources"],
)
def test_fields_of_shared_resources_count_in_their_exact_spelling(document, expected):
    assert findings_of(document) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "version: v1\nflags: {}\nversion: v1\n",
            (
                'has the duplicate key "version" in line 3, first given at line 1; the device plugin would keep the last one '
                "and say nothing; keep one of them"
            ),
        ),
        (
            "version: v1\nsharing:\n\ttimeSlicing: {}\n",
            (
                "is not YAML in line 3: a tab cannot indent; use spaces; the device plugin would "
                "exit, unable to parse its config file; correct line 3"
            ),
        ),
        (
            "version: v1\n---\nversion: v1\n",
            (
                "has a second document in line 3; the device plugin would read the first one only; give each document a key of "
                "its own"
            ),
        ),
        (
            "just text",
            (
                "is a single value, not a mapping; the device plugin would exit, unable to parse its "
                "config file; write fields such as version, flags and sharing"
            ),
        ),
        (
            "- version: v1\n",
            (
                "is a list, not a mapping; the device plugin would exit, unable to parse its config "
                "file; write fields such as version, flags and sharing"
            ),
        ),
    ],
    ids=["duplicate", "tab", "documents", "scalar", "list"],
)
def test_texts_that_are_no_configuration_are_refused(text, expected):
    (found,) = refused(text)
    assert (found.rule.id, found.text) == ("GA133", f"data.any: {expected}")


def test_a_text_with_nothing_in_it_warns():
    (found,) = found_in("# nothing yet\n")
    assert (found.rule.id, found.severity) == ("GA133", Severity.WARN)
    assert found.text == (
        "data.any: holds nothing, so nodes that select it share no GPU and get every default; "
        'write "version: v1" to share nothing'
    )


@pytest.mark.parametrize("data", [{}, None])
def test_a_config_map_without_keys_is_refused(data):
    (found,) = reviewed(config_map(data))
    assert found.text == (
        "data: holds no configuration; the config manager would report: no configuration files available; "
        "add a key, such as any, with a configuration"
    )


def test_a_value_that_is_no_text_is_refused():
    (found,) = reviewed(config_map({"any": {"version": "v1"}}))
    assert found.text == (
        "data.any: must be a string; the API server refuses it; write any: |- and indent the configuration below it"
    )


def test_a_key_that_is_no_label_value_warns():
    (found,) = reviewed(config_map({"a100_": "version: v1"}))
    assert (found.rule.id, found.severity) == ("GA133", Severity.WARN)
    assert found.text == (
        "data.a100_: cannot be the value of a label, so no node can select it by nvidia.com/device-plugin.config; "
        "name it with at most 63 letters, digits, dashes, underscores and dots, and no sign at either end"
    )


def test_aliases_without_end_cost_nothing():
    laughs = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    (found,) = refused(laughs)
    assert found.rule.id == "GA133"


def test_places_are_those_of_the_embedded_document():
    (found,) = found_in("version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: gpu\n      replicas: 1\n")
    assert (found.place.path, found.place.line, found.place.column) == (("data", "any"), 6, 17)


NAMES = st.sampled_from(
    [
        "version",
        "flags",
        "sharing",
        "timeSlicing",
        "mps",
        "resources",
        "name",
        "replicas",
        "devices",
        "gfd",
        "imex",
        "Name",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(ANYTHING)
def test_any_document_is_answered(value):
    found_in(json.dumps(value))
    found_in({"sharing": value})
    found_in({"sharing": {"timeSlicing": value, "mps": {"resources": [value, {"name": value, "replicas": value}]}}})
    found_in({"flags": {"gfd": value, "plugin": {"deviceListStrategy": value}}, "resources": {"gpus": [value]}})


@given(ANYTHING)
def test_any_config_map_is_answered(value):
    reviewed(config_map(value))
    reviewed(config_map({"any": value}), config_map(value))
