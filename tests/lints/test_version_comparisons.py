"""The lint for versions that are compared outside their tables."""

import pytest

from lints.version_comparisons import main, version_comparisons


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("_SINCE = (1, 36)", "(1, 36)"),
        ("GATES = {'DRADeviceTaints': ((1, 36), 'taints')}", "(1, 36)"),
        ("_PANICS_UP_TO = (26, 3)", "(26, 3)"),
        ("old = view.server_version() < least", "view.server_version() < least"),
        ("old = least <= traits.kubelet_version", "least <= traits.kubelet_version"),
        ("version = view.server_version(); old = version < least", "version < least"),
        ("version, spec = view.server_version(), pod.get('spec'); old = version[1] < 36", "version[1] < 36"),
        ("old = release < '0.5.0'", "release < '0.5.0'"),
    ],
)
def test_version_that_is_written_out_or_compared_is_found(text, found):
    assert list(version_comparisons(text)) == [(1, found)]


@pytest.mark.parametrize(
    "text",
    [
        "on = Feature.DRADeviceTaints.is_on(view)",
        "shown = version_text(view.server_version())",
        "is_known = view.server_version() is not UNKNOWN",
        "few = len(versions) < 36",
        "ports = (1, 2), (80, 443)",
        "same = release == '0.5.0'",
    ],
)
def test_other_text_is_accepted(text):
    assert list(version_comparisons(text)) == []


def test_comparison_in_what_is_shipped_is_refused_outside_the_tables(monkeypatch, tmp_path, capsys):
    for name in ("rules", "kubernetes"):
        (tmp_path / "policies" / name).mkdir(parents=True)
        (tmp_path / "policies" / name / "versions.py").write_text("SINCE = (1, 36)\n")
    monkeypatch.setattr("lints.version_comparisons.ROOT", tmp_path)
    assert main([]) == 1
    assert capsys.readouterr().out == (
        "policies/rules/versions.py:1: ask the table of versions for the feature, instead of (1, 36)\n"
    )
    (tmp_path / "policies" / "rules" / "versions.py").unlink()
    assert main([]) == 0
