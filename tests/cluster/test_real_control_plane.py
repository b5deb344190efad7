"""Whether the scenarios ran on a real control plane."""


def test_real_control_plane_is_given(real):
    """Skipped, it stands for all scenarios that could not run."""
    assert real.minor >= 34
    assert real.service.probe()["ready"]
