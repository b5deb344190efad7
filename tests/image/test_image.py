"""The real Dockerfile on a Debian of packages: the same bytes twice, nothing that is not needed, and it serves without rights.

`make image-proof` runs this, as root on a Debian with buildah and mmdebstrap: some two minutes.
"""

import base64
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from release.project import pins, version
from release.sbom import bill_of_materials
from testbed import deploy, libyaml, manifests
from testbed.background import Background
from testbed.sandbox_cluster import SandboxCluster
from testbed.service import Service

ROOT = Path(__file__).parents[2]
DEBIAN, IMAGE = "localhost/debian-of-packages", "localhost/gpu-admission"
USER = 65532
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")

pytestmark = pytest.mark.skipif(os.environ.get("IMAGE_PROOF") != "full", reason="takes minutes: `make image-proof`")


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout.strip()


@pytest.fixture(scope="module")
def tools():
    missing = [name for name in ("buildah", "mmdebstrap", "unshare", "chroot") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root, and {', '.join(missing) or 'nothing more'}")


@pytest.fixture(scope="module")
def debian(tools, tmp_path_factory):
    """The image of a Debian, made from packages, which trusts what this machine trusts."""
    folder = tmp_path_factory.mktemp("debian")
    run("mmdebstrap", "--variant=apt", "--include=ca-certificates", "trixie", folder)
    shutil.copy(CERTIFICATES, folder / CERTIFICATES.relative_to("/"))
    (folder / "etc" / "pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n")
    container = run("buildah", "from", "scratch")
    run("buildah", "add", "--quiet", container, folder, "/")
    run("buildah", "commit", "--quiet", "--rm", container, DEBIAN)
    return DEBIAN


def build(debian, tag):
    options = [
        "BUILDER=buildah",
        "BUILD_OPTIONS=--network=host --pull=never",
        f"DEBIAN={debian}",
        f"IMAGE={IMAGE}:{tag}",
    ]
    run("make", "-C", ROOT, "image", *options, env={**os.environ, "BUILDAH_ISOLATION": "chroot"})
    return json.loads(run("buildah", "inspect", "--type=image", f"{IMAGE}:{tag}"))


@pytest.fixture(scope="module")
def image(debian):
    return build(debian, "proof")


@pytest.fixture(scope="module")
def root(image):
    """The file system of the image, mounted."""
    container = run("buildah", "from", "--pull-never", f"{IMAGE}:proof")
    yield Path(run("buildah", "mount", container))
    run("buildah", "rm", container)


def test_second_build_has_the_same_digest(debian, image):
    assert build(debian, "again")["FromImageDigest"] == image["FromImageDigest"]


def test_image_says_what_it_is(image):
    config = image["OCIv1"]["config"]
    assert config["User"] == f"{USER}:{USER}"
    assert (config["Entrypoint"], config["Cmd"]) == (["/usr/local/bin/gpu-admission"], ["serve"])
    assert config["Labels"]["org.opencontainers.image.version"] == version()


def test_image_has_no_shell_and_no_package_manager(root):
    programs = {path.name for path in root.rglob("bin/*")} | {path.name for path in root.rglob("sbin/*")}
    assert not programs & {"sh", "bash", "dash", "busybox", "apt", "apt-get", "dpkg", "pip", "pip3", "perl"}
    assert not [*root.rglob("pip"), *root.rglob("ensurepip")]


def test_nothing_is_writable_or_privileged(root):
    files = [path for path in root.rglob("*") if not path.is_symlink()]
    modes = {path: path.stat().st_mode for path in files}
    assert [path for path, mode in modes.items() if mode & (stat.S_ISUID | stat.S_ISGID) and stat.S_ISREG(mode)] == []
    assert [path for path, mode in modes.items() if mode & stat.S_IWOTH and not mode & stat.S_ISVTX] == []
    assert {path.stat().st_uid for path in files} == {0}


def test_image_has_the_packages_of_the_lock(root):
    folder = root / "usr" / "local" / "lib" / "python3.13" / "dist-packages"
    installed = {
        tuple(each.name.removesuffix(".dist-info").lower().split("-")[:2]) for each in folder.glob("*.dist-info")
    }
    locked = {(pin.name.replace("-", "_"), pin.version) for pin in pins()} | {("gpu_admission", version())}
    assert {(name.replace("-", "_"), number) for name, number in installed} == locked


def test_bill_of_materials_names_its_debian_packages(image, root):
    text = (ROOT / "dist" / f"gpu-admission-{version()}-image.cdx.json").read_text()
    assert text == bill_of_materials(root)
    assert {"libc6", "libssl3t64", "python3.13-minimal", "aiohttp"} <= {
        each["name"] for each in json.loads(text)["components"]
    }


CONFINE = """\
set -e
root=$1 folder=$2; shift 2
mkdir -p "$root$folder"
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"
mount --bind "$folder" "$root$folder"
mount -o remount,bind,ro "$root$folder"
# As in every container.
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec=%d:%d "$root" /usr/local/bin/gpu-admission "$@"
"""


class ConfinedService(Service):
    """A replica of the image as a user without rights, where nothing can be written, not even temporary files."""

    root: Path
    folder: Path

    def command(self):
        return ["unshare", "--mount", "sh", "-c", CONFINE % (USER, USER), "confine", self.root, self.folder]


def write_kubeconfig(cluster, folder):
    """A kubeconfig that names files, as the credentials of a pod are files; what is in it would be written to temporary ones."""
    content = libyaml.load(cluster.sandbox.kubeconfig(deploy.USER))
    for part in (content["clusters"][0]["cluster"], content["users"][0]["user"]):
        for key in [key for key in part if key.endswith("-data")]:
            file = folder / key
            file.write_bytes(base64.b64decode(part.pop(key)))
            part[key.removesuffix("-data")] = str(file)
    kubeconfig = folder / "service"
    kubeconfig.write_text(yaml.safe_dump(content))
    return kubeconfig


def test_image_serves_reviews_read_only_and_without_rights(root, tmp_path):
    background = Background()
    cluster = SandboxCluster(background, tmp_path)
    kubeconfig = write_kubeconfig(cluster, tmp_path)
    service = ConfinedService(kubeconfig, "127.0.0.1", tmp_path / "log")
    service.root, service.folder = root, tmp_path
    for folder in tmp_path.parents[:-1]:
        folder.chmod(folder.stat().st_mode | 0o055)
    tmp_path.chmod(0o777)
    try:
        cluster.install()
        cluster.use(service)
        team = cluster.namespace(dra="enabled")
        assert "resourceClaims" in cluster.create(manifests.pod(team)).object["spec"]
        assert int(Path(f"/proc/{service.process_id}").stat().st_uid) == USER
    finally:
        cluster.close()
        background.close()
