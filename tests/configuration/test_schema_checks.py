"""Values that the CRD does not allow, with helpful messages."""

import pytest

from tests.findings import plain_text

POLICY = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
"""


def findings_of(findings, rule):
    return [plain_text(finding) for finding in findings if finding.rule.id == rule]


def test_spec_that_is_no_mapping_is_reported(examined):
    found = examined(POLICY + "spec: [driver]")
    assert findings_of(found, "GA101") == ["spec: is a list; it must be a mapping; write its fields below it"]


def test_message_about_a_word_of_a_guide_says_what_it_means(examined):
    found = examined(POLICY + "spec: {driver: {kernelModuleType: precompiled}}")
    assert findings_of(found, "GA101") == [
        (
            'spec.driver.kernelModuleType: Unsupported value: "precompiled": supported values: "auto", "open", "proprietary"; write usePrecompiled: true '
            'with a driver branch such as version: "580"'
        )
    ]


@pytest.mark.parametrize(("written", "meant"), [("on", "on"), ("off", "off")])
def test_remedy_for_an_unquoted_switch_has_quotes(examined, written, meant):
    found = examined(POLICY + f"spec: {{ccManager: {{defaultMode: {written}}}}}")
    (text,) = findings_of(found, "GA101")
    assert text.endswith(f'write "{meant}", in quotes; YAML reads it as {str(written == "on").lower()} without')


def test_mistyped_field_is_reported_by_name(examined):
    found = examined(POLICY + "spec: {toolkit: {versoin: v1.20.0}}")
    assert findings_of(found, "GA102") == [
        ('spec.toolkit.versoin: unknown field: the API server drops it silently, so it has no effect; write "version"')
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ("dcgmExporter: {serviceMonitor: {relabelings: [{source_labels: [a], targetLabel: b}]}}", "sourceLabels"),
        ("daemonsets: {podSecurityContext: {runasuser: 0}}", "runAsUser"),
    ],
)
def test_mistyped_field_of_a_kind_of_others_is_reported(examined, spec, field):
    (text,) = findings_of(examined(POLICY + f"spec: {{{spec}}}"), "GA102")
    assert text.endswith(f'write "{field}"')


def test_unknown_action_of_a_relabeling_is_refused(examined):
    spec = "spec: {dcgmExporter: {serviceMonitor: {relabelings: [{action: REPLACE, modulus: -1}]}}}"
    path = "spec.dcgmExporter.serviceMonitor.relabelings[0]"
    found = [text for text in findings_of(examined(POLICY + spec), "GA101") if text.startswith(path)]
    assert [text.partition(": ")[0] for text in found] == [f"{path}.action", f"{path}.modulus"]
    assert found[0].endswith('write "replace"') or found[0].endswith('write "Replace"')


def test_mapping_is_not_proposed_as_a_field_of_text(examined):
    spec = "spec: {toolkit: {env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: b}}}]}}"
    assert findings_of(examined(POLICY + spec), "GA102") == [
        (
            "spec.toolkit.env[0].valueFrom: unknown field: the API server drops it silently, so it has no effect; remove it; "
            "there are name, value"
        )
    ]


def test_pull_secret_of_the_shape_of_pods_gets_its_name_as_the_remedy(examined):
    found = examined(POLICY + "spec: {toolkit: {imagePullSecrets: [{name: ngc}]}}")
    assert findings_of(found, "GA101")[-1].endswith('imagePullSecrets[0]: is a mapping; it must be text; write "ngc"')


@pytest.mark.parametrize(("kind", "field"), [("ClusterPolicy", "configMapName"), ("NVIDIADriver", "name")])
def test_deprecated_licence_is_not_said_to_have_no_effect(examined, kind, field):
    version = "v1" if kind == "ClusterPolicy" else "v1alpha1"
    licence = f"licensingConfig: {{{field}: licence}}"
    spec = f"driver: {{{licence}}}" if kind == "ClusterPolicy" else licence
    document = f"apiVersion: nvidia.com/{version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{{spec}}}"
    (text,) = findings_of(examined(document), "GA103")
    assert "is deprecated, and still read; put the licence into a Secret" in text


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        ("driver: {upgradePolicy: {kernelModuleType: auto}}", "move it to spec.driver"),
        ("kernelModuleType: auto", "move it to spec.driver"),
        ("mig: {repository: x}", "remove it; there are strategy"),
    ],
)
def test_field_below_another_is_moved_to_its_only_place(examined, spec, remedy):
    (found,) = [one for one in examined(POLICY + f"spec: {{{spec}}}") if one.rule.id == "GA102"]
    assert (found.severity, found.remedy) == ("warn", remedy)


def test_field_of_a_newer_operator_only_warns(examined):
    (finding,) = [one for one in examined(POLICY + "spec: {quantumFabric: {}}") if one.rule.id == "GA102"]
    assert finding.severity == "warn"


def test_deprecated_field_that_is_off_is_not_reported(examined):
    assert findings_of(examined(POLICY + "spec: {kataManager: {enabled: false}, cdi: {default: false}}"), "GA103") == []


def test_mistake_that_is_stored_already_does_not_refuse_an_annotation(examined):
    stored = POLICY + "spec: {driver: {kernelModuleType: precompiled}}"
    annotated = stored.replace("{name: cluster-policy}", "{name: cluster-policy, annotations: {team: a}}")
    (finding,) = [one for one in examined(f"{annotated}\n--- # before{stored}") if one.rule.id == "GA101"]
    assert finding.severity == "warn"


def test_object_on_its_way_out_is_not_refused(examined):
    leaving = (
        POLICY.replace("policy}", 'policy, deletionTimestamp: "2026-11-20T20:00:00Z"}') + "spec: {mig: {strategy: x}}"
    )
    (finding,) = [one for one in examined(leaving) if one.rule.id == "GA101"]
    assert finding.severity == "warn"


def test_required_field_that_is_empty_has_one_finding(examined):
    whole = "operator: {}, driver: {}, toolkit: {}, devicePlugin: {}, dcgm: {}, dcgmExporter: {}, daemonsets: {}"
    found = examined(POLICY + f"spec: {{{whole}, nodeStatusExporter: {{}}, gfd: null}}")
    assert [(each.rule.id, plain_text(each)) for each in found if str(each.path) == "spec.gfd"] == [
        (
            "GA101",
            (
                "spec.gfd: is empty, which counts as missing; the API server refuses the object without it; indent its lines, "
                "or write gfd: {}"
            ),
        )
    ]
