"""`make image` calls each builder with the options that it knows, and leaves the files of a release alone."""

import subprocess
from pathlib import Path

import pytest

from release.project import version

ROOT = Path(__file__).parents[2]


def commands(*options):
    """What `make image` would run."""
    done = subprocess.run(["make", "-n", "-C", ROOT, "image", *options], check=True, capture_output=True, text=True)
    return [line.strip() for line in done.stdout.replace("\\\n", "").splitlines()]


def builds(*options):
    return [" ".join(line.split()) for line in commands(*options) if " build --" in line and "python" not in line]


@pytest.mark.parametrize("builder", ["buildah", "/usr/bin/podman"])
def test_podman_and_buildah_stamp_the_time_and_keep_layers(builder):
    image, packages = builds(f"BUILDER={builder}", "IMAGE=r.example.com/a:1")
    assert image.startswith(f"{builder} build --layers --timestamp 1580601600 --build-arg VERSION={version()} ")
    assert image.endswith(" --no-cache --tag r.example.com/a:1 .")
    assert packages.endswith(" --target packages --output type=local,dest=build/image .")


def test_docker_gets_no_options_of_others():
    for command in builds("BUILDER=/usr/bin/docker"):
        assert "--layers" not in command
        assert "--timestamp" not in command


def test_base_and_options_of_users_are_passed_on():
    for command in builds(
        "BUILDER=buildah", "DEBIAN=mirror.example.com/debian:13", "BUILD_OPTIONS=--platform=linux/arm64"
    ):
        assert " --platform=linux/arm64 --build-arg DEBIAN=mirror.example.com/debian:13 " in command


def test_files_of_a_release_stay():
    removed = [line for line in commands("BUILDER=buildah") if "rm -rf" in line]
    assert removed
    assert [line for line in removed if "dist" in line.partition("&&")[0]] == []
