"""Properties of host paths, for every spelling."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.access.node_places import ancestors, is_within, normalised_path, shown_path

STEPS = st.sampled_from(["dev", "nvidia0", "var", "run", "proc", "1", "self", "root", "cwd", "nvidia", "x"])
CLEAN = st.lists(STEPS, min_size=1, max_size=6).map(lambda steps: "/" + "/".join(steps))
NOISE = st.sampled_from(["/", "//", "/./", "/x/../", "/a/b/../../"])
ANY = st.text(max_size=40) | st.text("/.proctself10vandu:", max_size=40)


@given(ANY)
def test_normalising_twice_changes_nothing(path):
    assert normalised_path(normalised_path(path)) == normalised_path(path)


@given(ANY)
def test_normalised_path_has_one_spelling(path):
    clean = normalised_path(path)
    assert clean.startswith("/")
    assert clean == "/" or not clean.endswith("/")
    assert not {"", ".", ".."} & set(clean.split("/")[1:]) or clean == "/"
    assert not is_within(clean, "/var/run")


@given(CLEAN, st.data())
def test_every_spelling_is_the_same_path(path, data):
    steps = path.split("/")[1:]
    noisy = "".join(data.draw(NOISE) + step for step in steps) + data.draw(st.sampled_from(["", "/", "/.", "//"]))
    assert normalised_path(noisy) == normalised_path(path)


@given(CLEAN)
def test_path_without_links_is_that_of_posix(path):
    if "/proc/" not in path and not is_within(path, "/var/run"):
        assert normalised_path(path) == posixpath.normpath(path)


@given(CLEAN)
def test_path_is_within_its_ancestors(path):
    assert all(parent == "/" or is_within(path, parent) for parent in ancestors(path))
    assert path not in ancestors(path)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "/"),
        ("/", "/"),
        ("/..", "/"),
        ("/../../dev", "/dev"),
        ("/var/run", "/run"),
        ("/var/running", "/var/running"),
        ("/proc/1/root", "/"),
        ("/proc/1/root/var/run/cdi", "/run/cdi"),
        ("/proc/1/task/1/root/dev", "/dev"),
        ("/proc/4711/cwd/dev", "/dev"),
        ("/proc/self/cwd", "/"),
        ("/proc/thread-self/cwd/dev/nvidia0", "/dev/nvidia0"),
        ("/proc/self/task/1/cwd/dev", "/dev"),
        ("/proc/self/root/proc/1/cwd/proc/thread-self/root/dev", "/dev"),
        ("/proc/1/cwd/var/run/cdi", "/run/cdi"),
        ("/proc/self/cwd/../../dev", "/dev"),
        ("/proc/self/root/proc/1/cwd/../dev", "/dev"),
        ("/proc/1/x/../root/dev", "/dev"),
        ("/var/run/../dev", "/dev"),
        ("/var/x/../run/cdi", "/run/cdi"),
        ("/dev/fd/3", "/proc/self/fd/3"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/proc/1/fd/3/../../../../dev", "/proc/1/fd/3/dev"),
        ("/proc/1/exe/../x", "/proc/1/exe/x"),
        ("/proc/1/fd/../root/dev", "/dev"),
        ("/proc/1/task/root", "/proc/1/task/root"),
        ("/proc/1/cwdx", "/proc/1/cwdx"),
        ("/proc/1/rooted", "/proc/1/rooted"),
        ("/proc/x/root/dev", "/proc/x/root/dev"),
        ("/run/proc/1/root", "/run/proc/1/root"),
    ],
)
def test_links_of_every_node_are_followed(path, expected):
    assert normalised_path(path) == expected


def test_ancestors_begin_at_the_root():
    assert ancestors("/var/lib/kubelet") == ("/", "/var", "/var/lib")
    assert ancestors("/dev") == ("/",)


@pytest.mark.parametrize(
    ("path", "expected"), [("/a\nb\x1b", "/a b "), ("/é", "/é"), ("/" + "x" * 200, "/" + "x" * 116 + "...")]
)
def test_path_in_a_message_is_one_short_line(path, expected):
    assert shown_path(path) == expected
