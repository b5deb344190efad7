"""What selectors say of each kind of device: verdicts, conditions, errors, costs, and what review says."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.selectors import AnalysisJSON, DeviceVerdict, ExcludedBy, Truth, analysis, analysis_json
from policies.analyses.selectors.analysis import MOST_ROWS
from policies.cel import MOST_COST, CelRuntimeError, compile_selector
from policies.devices.published_devices import published_devices
from policies.kubernetes.objects import json_document
from tests.selectors.devices import (
    ARCHITECTURE,
    MEMORY,
    analysis_of,
    cluster,
    device_class,
    gpu,
    gpus,
    resource_slice,
)
from webhook.cluster.manifests import ManifestsView

T, F, FAILS, SKIPPED = Truth.TRUE, Truth.FALSE, Truth.FAILS, Truth.SKIPPED


def rows_of(analysis):
    return [(row.kind, row.count, row.nodes, str(row.verdict), row.error or row.why) for row in analysis.rows]


def clauses_of(analysis):
    return [
        (clause.true, clause.false, clause.failed, clause.excluded, clause.alone)
        for selector in analysis.selectors
        for clause in selector.clauses
    ]


def test_alike_devices_are_one_row():
    assert rows_of(analysis_of(ARCHITECTURE)) == [
        ("NVIDIA-H100-80GB-HBM3", 5, 2, "matches", ""),
        ("Tesla-T4", 2, 1, "excluded", "has productName Tesla T4, NVIDIA H100 80GB HBM3 requested"),
        (
            "channel of compute-domain.nvidia.com",
            1,
            1,
            "excluded",
            "is of driver compute-domain.nvidia.com, gpu.nvidia.com requested",
        ),
    ]


def test_row_names_the_first_devices():
    assert analysis_of(ARCHITECTURE).rows[0].places == "gpu-0 on node-1 and 4 more"


def test_devices_are_counted():
    found = analysis_of(ARCHITECTURE)
    assert (found.devices, found.matched, found.excluded, found.failed, found.not_evaluated) == (8, 5, 3, 0, 0)
    assert found.summary == "5 of 8 devices match"


def test_conditions_are_counted():
    """Those of the class first; both conditions of the request are false for a T4."""
    assert clauses_of(analysis_of(f"{ARCHITECTURE} && {MEMORY}")) == [
        (7, 1, 0, 1, 0),
        (7, 0, 1, 0, 0),
        (5, 2, 0, 2, 0),
        (5, 2, 0, 0, 0),
    ]


def test_condition_that_excludes_alone_is_counted():
    found = analysis_of(f'{MEMORY} && device.attributes["gpu.nvidia.com"].uuid == "GPU-1"')
    assert [alone for *_, alone in clauses_of(found)[2:]] == [1, 3]


def test_truth_table_has_every_condition_of_every_selector():
    found = analysis_of(f"{ARCHITECTURE} && {MEMORY}")
    assert [row.truths for row in found.rows] == [
        ((T, T), (T, T)),
        ((T, T), (F, F)),
        ((F, FAILS), (SKIPPED, SKIPPED)),
    ]


def test_condition_that_fails_does_not_matter_beside_a_false_one():
    """CEL's `false && error` is false."""
    missing = 'device.attributes["gpu.nvidia.com"].missing == 1'
    found = analysis_of(f"{missing} && {ARCHITECTURE.replace('H100', 'none')}")
    assert {str(row.verdict) for row in found.rows} == {"excluded"}
    assert found.rows[0].excluded_by == ExcludedBy(1, 1)


def test_selector_that_fails_names_the_error_and_the_remedy():
    found = analysis_of('device.attributes["gpu.nvidia.com"].productNam == "x"')
    assert found.failed == 7
    assert not found.is_valid
    assert rows_of(found)[0] == ("NVIDIA-H100-80GB-HBM3", 5, 2, "fails", "no such key: productNam")
    assert [(problem.rule, problem.remedy) for problem in found.problems] == [
        ("GA221", 'write device.attributes["gpu.nvidia.com"].productName')
    ]


def test_expression_without_a_class_is_about_all_devices():
    found = analysis_of(ARCHITECTURE, of_class="")
    assert (found.label, found.matched, found.failed) == ("the expression", 5, 1)
    assert rows_of(found)[1][0] == "channel of compute-domain.nvidia.com"


def test_error_of_the_compiler_has_its_place_and_remedy():
    found = analysis_of('device.driver == "x"\n  and true')
    assert (found.compiles, found.rows, found.summary) == (False, (), "does not compile")
    assert [str(problem) for problem in found.problems] == [
        (
            "line 2, column 3: compilation failed: ERROR: <input>:2:3: Syntax error: mismatched input 'and' expecting <EOF>, "
            "at and true; write && [GA215]"
        )
    ]


def test_costs_are_the_estimate_and_those_of_the_devices():
    own = analysis_of(f"{ARCHITECTURE} && {MEMORY}").selectors[-1]
    assert (own.estimate, own.costs) == (14, (5, 14))
    assert own.cost_sentence == (
        "The estimated cost for one device is 14 of at most 1,000,000; for these devices it is 5 to 14."
    )


def test_selector_that_is_too_costly_says_so():
    loop = (
        'device.attributes["a"].all(x, device.attributes["a"].all(y, device.attributes["a"].all(z, x == y && y == z)))'
    )
    nested = f'device.attributes["a"].all(w, {loop})'
    found = analysis_of(nested)
    assert found.selectors[-1].estimate > MOST_COST
    assert not found.is_valid
    assert "GA216" in {problem.rule for problem in found.problems}
    assert "so the API server refuses it" in found.selectors[-1].cost_sentence


def test_devices_that_a_selector_tells_apart_are_rows_of_their_own():
    found = analysis_of('device.attributes["gpu.nvidia.com"].uuid == "GPU-2"')
    assert [(row.count, str(row.verdict), row.devices[0]) for row in found.rows][:1] == [
        (1, "matches", "gpu-2 on node-2")
    ]


def test_unknown_devices_are_said():
    found = analysis_of(ARCHITECTURE, view=ManifestsView([device_class()]))
    assert (found.devices, found.rows, found.summary) == (None, (), "devices unknown")
    assert found.notes == ("no ResourceSlices are known, so the devices are unknown",)


@pytest.mark.parametrize(
    ("objects", "note"),
    [
        ((), "DeviceClass other is unknown, so all devices are evaluated"),
        ((device_class("known"),), "DeviceClass other does not exist, so all devices are evaluated"),
    ],
    ids=["unknown", "missing"],
)
def test_missing_or_unknown_class_is_a_note(objects, note):
    view = ManifestsView([resource_slice(gpus(1)), *objects])
    assert analysis_of(ARCHITECTURE, of_class="other", view=view).notes == (note,)


def test_class_with_a_broken_selector_is_a_note():
    view = ManifestsView([resource_slice(gpus(1)), device_class("broken", "device.")])
    found = analysis_of(ARCHITECTURE, of_class="broken", view=view)
    assert found.notes == ("a selector of DeviceClass broken does not compile, so no device was evaluated",)
    assert not found.compiles


def test_edit_gains_and_loses_devices():
    t4 = ARCHITECTURE.replace("NVIDIA H100 80GB HBM3", "Tesla T4")
    comparison = analysis_of(ARCHITECTURE, t4).comparison
    assert (comparison.gained, comparison.lost, comparison.failing) == (2, 5, 0)
    assert [(str(each.change), each.row.kind, each.row.count) for each in comparison.changes] == [
        ("lost", "NVIDIA-H100-80GB-HBM3", 5),
        ("gained", "Tesla-T4", 2),
    ]
    assert comparison.edited.matched == 2


def test_edit_that_fails_is_a_change():
    comparison = analysis_of(ARCHITECTURE, 'device.attributes["gpu.nvidia.com"].missing == 1').comparison
    assert (comparison.gained, comparison.lost, comparison.failing) == (0, 0, 7)


def test_edit_that_does_not_compile_is_said():
    found = analysis_of(ARCHITECTURE, "device.")
    assert (found.matched, found.comparison.edited.compiles, found.comparison.changes) == (5, False, ())


def test_edit_that_tells_devices_apart_changes_only_some():
    comparison = analysis_of(ARCHITECTURE, 'device.attributes["gpu.nvidia.com"].uuid == "GPU-0"').comparison
    assert (comparison.gained, comparison.lost) == (1, 3)


def test_rows_are_bounded():
    devices = [gpu(number, memory=f"{number}Gi", product=f"P{number}") for number in range(1, 3 * MOST_ROWS)]
    view = ManifestsView([device_class(), resource_slice(devices)])
    found = analysis_of(MEMORY, "true", view=view)
    assert (len(found.rows), found.rows_left_out) == (MOST_ROWS, 2 * MOST_ROWS - 1)
    assert found.matched + found.excluded == 3 * MOST_ROWS - 1
    assert len(found.comparison.changes) <= MOST_ROWS


def test_many_devices_that_a_selector_tells_apart_are_all_asked():
    slices = [resource_slice([gpu(f"{node}-{number}") for number in range(8)], f"node-{node}") for node in range(600)]
    found = analysis_of(
        'device.attributes["gpu.nvidia.com"].uuid == "GPU-599-7"', view=ManifestsView([*slices, device_class()])
    )
    assert (found.devices, found.matched, found.not_evaluated) == (4800, 1, 0)


def test_costly_selectors_end_at_a_bound(monkeypatch):
    """Hundreds of kinds of devices, and a selector whose cost is near the limit."""
    monkeypatch.setattr(analysis, "MOST_WORK", 300_000)
    devices = [gpu(number, product=f"P{number}") for number in range(400)]
    for device in devices:
        device["attributes"] |= {f"a{place}": {"string": "x" * 64} for place in range(20)}
    loops = 'device.attributes["gpu.nvidia.com"]'
    costly = f'{loops}.all(x, {loops}.all(y, {loops}.all(z, x.contains("x") || y.contains("x") || z != "")))'
    found = analysis_of(costly, view=ManifestsView([device_class(), resource_slice(devices)]))
    assert found.not_evaluated > 0
    assert found.matched + found.excluded + found.failed + found.not_evaluated == 400
    assert found.notes[0].endswith("left out: evaluating the selectors on all devices is too much work")


def test_conditions_are_bounded():
    found = analysis_of(" && ".join(f"{number} != 0" for number in range(1, 400)))
    (own,) = found.selectors[1:]
    assert len(own.clauses) == 16
    assert found.matched == 7


TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        [
            'device.attributes["gpu.nvidia.com"]',
            ".productName",
            ".uuid",
            ".missing",
            "device.driver",
            "device.capacity",
            " == ",
            '"NVIDIA H100 80GB HBM3"',
            '"GPU-1"',
            " && ",
            " || ",
            "!",
            "(",
            ")",
            "true",
            "?",
            ":",
            "1",
            "\x00",
            "\ud800",
        ]
    ),
    max_size=9,
).map("".join)


@given(text=TEXTS, edit=st.none() | TEXTS, of_class=st.sampled_from(["", "gpu.nvidia.com", "none"]))
def test_any_expression_is_analyzed(text, edit, of_class):
    found = analysis_of(text, edit, of_class=of_class)
    json.dumps(json_document(analysis_json(found), AnalysisJSON))
    assert found.compiles or found.problems or found.notes


EXPRESSIONS = st.lists(
    st.sampled_from(
        [
            ARCHITECTURE,
            MEMORY,
            'device.attributes["gpu.nvidia.com"].uuid == "GPU-1"',
            'device.attributes["gpu.nvidia.com"].missing == 1',
            'device.driver == "gpu.nvidia.com"',
            "false",
        ]
    ),
    min_size=1,
    max_size=4,
).map(" && ".join)


@given(expression=EXPRESSIONS)
def test_verdicts_are_those_of_each_device_alone(expression):
    view = cluster()
    selector = compile_selector(expression)
    counts = dict.fromkeys(DeviceVerdict, 0)
    for group in view.derive(published_devices).groups:
        for device in group.devices:
            verdict = selector.matches_all([{"driver": device.driver, **device.body}])[0]
            if isinstance(verdict, CelRuntimeError):
                counts[DeviceVerdict.FAILS] += 1
            else:
                counts[DeviceVerdict.MATCHES if verdict else DeviceVerdict.EXCLUDED] += 1
    found = analysis_of(expression, of_class="", view=view)
    assert (found.matched, found.excluded, found.failed) == (
        counts[DeviceVerdict.MATCHES],
        counts[DeviceVerdict.EXCLUDED],
        counts[DeviceVerdict.FAILS],
    )
