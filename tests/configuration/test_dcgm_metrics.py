"""Metric lists for the DCGM exporter: errors that stop it, and metrics that it reports wrongly."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.configuration.config_maps.dcgm_metrics import CSVError, read_records
from policies.nvidia.dcgm_fields import FIELDS, STRINGS, meant_field
from tests.findings import plain_text

CONFIG_MAP = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "metrics-config", "namespace": "gpu-operator"},
}
GOOD = (
    "# comment\n\nDCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).\nDCGM_FI_DRIVER_VERSION, label, Driver version\n"
)
POLICY = """
---
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
spec: {dcgmExporter: {config: {name: metrics-config}}}"""


@pytest.fixture
def found(examined):
    """The findings on a list, with their places."""

    def examine(text, cluster="", key="dcgm-metrics.csv"):
        findings = examined(json.dumps({**CONFIG_MAP, "data": {key: text}}) + cluster)
        return [
            (
                finding.rule.id,
                str(finding.severity),
                finding.place and (finding.place.line, finding.place.column),
                plain_text(finding),
            )
            for finding in findings
        ]

    return examine


def only(findings):
    assert len(findings) == 1
    return findings[0]


def test_good_list_has_no_finding(found):
    assert found(GOOD, POLICY) == []


def test_list_of_windows_has_no_finding(found):
    assert found(GOOD.replace("\n", "\r\n")) == []


def test_quoted_help_text_with_a_comma_has_no_finding(found):
    assert found('DCGM_FI_DEV_FB_USED,gauge,"Memory used, in ""MiB""."\n') == []


def test_comma_in_help_text_is_reported_with_the_line_to_write(found):
    assert only(found(GOOD + "DCGM_FI_DEV_FB_USED, gauge, Memory used, in MiB.\n")) == (
        "GA163",
        "deny",
        (5, 42),
        (
            "data[dcgm-metrics.csv]: has 4 fields, because each comma begins another one; the exporter would exit with: record "
            'on line 5: wrong number of fields; write DCGM_FI_DEV_FB_USED,gauge,"Memory used, in MiB."'
        ),
    )


def test_first_record_sets_the_number_of_fields(found):
    text = only(found("DCGM_FI_DEV_FB_USED, gauge\n"))[3]
    assert "malformed CSV record; err: failed to parse line 1, expected 3 fields; add a help text" in text


def test_missing_type_is_reported(found):
    assert only(found(GOOD + "DCGM_FI_DEV_FB_USED\n"))[3].endswith("; add a type, such as gauge, and a help text")


def test_quote_after_a_space_is_explained(found):
    assert only(found('DCGM_FI_DEV_FB_USED, gauge, "Memory used"\n')) == (
        "GA163",
        "deny",
        (1, 29),
        (
            "data[dcgm-metrics.csv]: a quote after a space does not begin a quoted text; the exporter would exit with: parse "
            'error on line 1, column 29: bare " in non-quoted field; remove the space before the quote'
        ),
    )


def test_indented_comment_is_reported(found):
    rule, severity, place, text = only(found(GOOD + "  # memory\n"))
    assert (rule, severity, place) == ("GA163", "deny", (5, 3))
    assert text == (
        "data[dcgm-metrics.csv]: is not a comment, because # is not in the first column, so "
        "it is read as a metric; move # to the beginning of the line"
    )


def test_heading_without_comment_sign_is_reported(found):
    text = only(found("DCGM FIELD, Prometheus metric type, help message\n" + GOOD))[3]
    assert text.endswith("unknown ExporterCounter field 'DCGM FIELD'; put # before the line")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("DCGM_FI_DEV_GPU_UTILIZATION", "DCGM_FI_DEV_GPU_UTIL"),
        ("DCGM_FI_DEV_GPU_UTILL", "DCGM_FI_DEV_GPU_UTIL"),
        ("DCGM_FI_DEV_XID_ERROSR", "DCGM_FI_DEV_XID_ERRORS"),
        ("dcgm_fi_dev_fb_used", "DCGM_FI_DEV_FB_USED"),
        ("DCGM_FI_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP"),
        ("DCGM_EXP_XID_ERROR_COUNT", "DCGM_EXP_XID_ERRORS_COUNT"),
    ],
)
def test_mistyped_field_is_refused_with_the_one_that_was_meant(found, written, meant):
    assert only(found(f"{written}, gauge, text\n")) == (
        "GA163",
        "deny",
        (1, 1),
        (
            f'data[dcgm-metrics.csv]: "{written}" is not a field of DCGM; the exporter would exit with: could not find DCGM field; '
            f"err: unknown ExporterCounter field '{written}'; write {meant}"
        ),
    )


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_SOMETHING_NEW", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L35"])
def test_field_that_may_exist_is_only_recorded(found, name):
    assert only(found(f"{name}, gauge, text\n"))[1] == "audit"


def test_exporters_own_field_that_does_not_exist_lists_those_that_do(found):
    assert only(found("DCGM_EXP_POWER, gauge, text\n"))[3].endswith(
        "; there are DCGM_EXP_CLOCK_EVENTS_COUNT, DCGM_EXP_XID_ERRORS_COUNT, DCGM_EXP_GPU_HEALTH_STATUS, "
        "DCGM_EXP_P2P_STATUS"
    )


def test_type_that_does_not_exist_is_reported(found):
    assert only(found("DCGM_FI_DEV_FB_USED, guage, text\n"))[2:] == (
        (1, 22),
        (
            'data[dcgm-metrics.csv]: "guage" is not a type of metric; the exporter would exit '
            "with: could not find Prometheus metric type 'guage'; write gauge"
        ),
    )


def test_type_in_capitals_is_reported(found):
    assert only(found("DCGM_FI_DEV_FB_USED, Gauge, text\n"))[3].endswith("; write gauge")


def test_help_text_of_two_lines_is_reported(found):
    text = only(found('DCGM_FI_DEV_FB_USED,gauge,"one\ntwo"\n'))[3]
    assert "the help text has more than one line, and Prometheus could not parse the metrics" in text


def test_list_without_a_metric_is_reported(found):
    assert only(found("# nothing\n"))[3].startswith(
        "data[dcgm-metrics.csv]: lists no metric, so the exporter would serve"
    )


def test_no_more_problems_are_reported_than_help(found):
    assert len(found("wrong\n" * 1000)) == 50


def test_last_xid_error_as_counter_is_warned_about(found):
    assert only(found("DCGM_FI_DEV_XID_ERRORS, counter, XID errors\n")) == (
        "GA164",
        "warn",
        (1, 25),
        (
            "data[dcgm-metrics.csv]: DCGM_FI_DEV_XID_ERRORS is the number of the last XID error and counts nothing, so rate() "
            "over it means nothing; write gauge, or count errors with DCGM_EXP_XID_ERRORS_COUNT"
        ),
    )


def test_text_as_gauge_is_warned_about(found):
    assert only(found("DCGM_FI_DRIVER_VERSION, gauge, Driver version\n"))[3].endswith("; write label")


@pytest.mark.parametrize(("kind", "effect"), [("gauge", ", and Prometheus would not parse the metrics"), ("label", "")])
def test_binary_field_is_warned_about(found, kind, effect):
    assert only(found(f"DCGM_FI_DEV_SUPPORTED_CLOCKS, {kind}, Clocks\n")) == (
        "GA164",
        "warn",
        (1, 1),
        (
            "data[dcgm-metrics.csv]: the value of DCGM_FI_DEV_SUPPORTED_CLOCKS is binary; the exporter serves ERROR - FAILED "
            f"TO CONVERT TO STRING instead{effect}; remove the line"
        ),
    )


def test_field_listed_twice_is_warned_about(found):
    text = only(found(GOOD + "DCGM_FI_DEV_GPU_UTIL, gauge, again\n"))[3]
    assert "DCGM_FI_DEV_GPU_UTIL is listed in line 3 already" in text


NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: gpu-1, labels: {nvidia.com/gpu.present: "true", nvidia.com/gpu.family: %s}}"""


def test_profiling_of_gpus_that_cannot_be_profiled_is_warned_about(found):
    rule, severity, _, text = only(found("DCGM_FI_PROF_SM_ACTIVE, gauge, text\n", NODE % "pascal"))
    assert (rule, severity) == ("GA164", "warn")
    assert 'DCGM cannot profile the GPUs of node "gpu-1" or of any other node here, so 1 fields' in text


@pytest.mark.parametrize(
    "cluster", ["", NODE % "hopper", NODE % "pascal" + (NODE % "hopper").replace("gpu-1", "gpu-2")]
)
def test_profiling_is_fine_where_some_gpu_can_or_nothing_is_known(found, cluster):
    assert found("DCGM_FI_PROF_SM_ACTIVE, gauge, text\n", cluster) == []


def test_other_key_is_refused_where_the_policy_names_the_config_map(found):
    assert only(found(GOOD, POLICY, key="default-counters.csv")) == (
        "GA162",
        "deny",
        None,
        (
            "data[default-counters.csv]: is not the key that the operator mounts; the exporter's pods would not start: "
            "references non-existent config key: dcgm-metrics.csv; name the key dcgm-metrics.csv"
        ),
    )


def test_other_key_is_warned_about_where_only_the_content_tells(found):
    assert only(found(GOOD, key="metrics.csv"))[:2] == ("GA162", "warn")


def test_key_of_a_standalone_exporter_is_fine(found):
    assert found(GOOD, key="metrics") == []


def test_config_map_without_a_list_is_refused_where_the_policy_names_it(found):
    assert only(found("nothing", POLICY, key="notes"))[3] == (
        "data: has no key dcgm-metrics.csv; the exporter's pods would not start: references non-existent config key: "
        "dcgm-metrics.csv; put the list of metrics under the key dcgm-metrics.csv"
    )


def test_dashboard_that_mentions_fields_is_no_list(found):
    assert found('{"expr": "avg(DCGM_FI_DEV_GPU_UTIL, ...)"}', key="gpu-dashboard.json") == []


def test_deletion_is_not_examined(examined):
    text = "# operation: DELETE\n" + json.dumps({**CONFIG_MAP, "data": {"dcgm-metrics.csv": "wrong"}})
    assert examined(text) == ()


def test_every_well_known_field_is_accepted(found):
    assert found("".join(f"{name}, {'label' if name in STRINGS else 'gauge'}, text\n" for name in sorted(FIELDS))) == []


@pytest.mark.parametrize(
    "name",
    [
        "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
        "DCGM_FI_DEV_GPU_UTIL_RATIO",
        "DCGM_FI_DEV_FB_USED_RATIO",
        "DCGM_FI_DEV_SM_CLOCK_HERTZ",
    ],
)
def test_longer_names_of_newer_dcgm_are_not_taken_for_mistakes(name):
    assert meant_field(name) is None


@given(st.text(alphabet='ab,"# \r\n\té', max_size=60))
def test_every_record_is_where_it_says(text):
    lines = text.split("\n")
    for record in read_records(text):
        for field in [record] if isinstance(record, CSVError) else record:
            assert 1 <= field.line <= len(lines)
            assert 1 <= field.column <= len(lines[field.line - 1]) + 1


@given(st.lists(st.lists(st.text(alphabet='ab,"# \n', min_size=1), min_size=2), max_size=4))
def test_quoted_records_are_read_as_they_were_written(records):
    text = "\n".join(",".join('"' + field.replace('"', '""') + '"' for field in record) for record in records)
    assert [[field.text for field in record] for record in read_records(text)] == records


def test_broken_list_that_nothing_names_is_only_warned_about(found):
    unnamed = POLICY.replace("name: metrics-config", "name: other")
    rule, severity, _, text = only(found("DCGM_FI_DEV_GPU_UTIL, gauge\n", unnamed))
    assert (rule, severity) == ("GA163", "warn")
    assert "nothing names this ConfigMap for the exporter" in text
    assert only(found("DCGM_FI_DEV_GPU_UTIL, gauge\n", POLICY))[:2] == ("GA163", "deny")


def test_broken_list_beside_the_one_that_is_mounted_is_only_warned_about(examined):
    data = {"dcgm-metrics.csv": GOOD, "old.csv": "DCGM_FI_DEV_GPU_UTIL, gauge\n"}
    (finding,) = examined(json.dumps({**CONFIG_MAP, "data": data}) + POLICY)
    assert (finding.rule.id, str(finding.severity)) == ("GA163", "warn")
