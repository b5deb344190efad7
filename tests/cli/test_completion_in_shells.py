"""What bash, zsh and fish complete, in those that are installed."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.cli.shells import EXECUTABLES, ShellOnTerminal

SHOWN_ARGUMENTS = "gpu-admission() { printf '<%s>' \"$@\" END; }"
"""Takes the place of the command; completion runs the executable."""
COMMANDS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(gpu-admission completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "unsetopt prompt_cr; autoload -Uz compinit; compinit -D -u; zstyle ':completion:*' insert-tab false; source <(gpu-admission completion zsh)",
    ),
}


@pytest.fixture(autouse=True)
def own_executables(monkeypatch, folder):
    """The commands of this environment come first, and no kubeconfig is found."""
    monkeypatch.setenv("PATH", str(EXECUTABLES), prepend=":")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("KUBECONFIG", raising=False)


def need(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


@pytest.fixture(params=COMMANDS)
def shell(request, folder):
    """An interactive bash or zsh with our completion."""
    need(request.param)
    command, setup = COMMANDS[request.param]
    shell = ShellOnTerminal(command, folder, setup=f"{setup}; {SHOWN_ARGUMENTS}")
    yield shell
    shell.close()


@pytest.fixture
def completed(shell):
    """The arguments of `gpu-admission` after TAB and Enter."""

    def completed(line):
        shell.write(f"gpu-admission {line}\t\n")
        shell.read_until("\n<")
        return shell.read_until("<END>").removesuffix(">").split("><")

    return completed


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("expl", ["explain"]),
        ("rules ga30", ["rules", "GA30"]),
        ("rules GA42", ["rules", "GA420"]),
        ("rules --kind ClusterP", ["rules", "--kind", "ClusterPolicy"]),
        ("review manifests/po", ["review", "manifests/pod.yaml"]),
        ("review --cluster manifests/po", ["review", "--cluster", "manifests/pod.yaml"]),
        ("quota --cluster manifests -n tea", ["quota", "--cluster", "manifests", "-n", "team-a"]),
        (
            "explain --cluster manifests -n team-a pod/",
            ["explain", "--cluster", "manifests", "-n", "team-a", "pod/train"],
        ),
    ],
)
def test_tab_completes(completed, write, pod, line, arguments):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    write("manifests/pod.yaml", pod(), namespace)
    assert completed(line) == arguments


def test_zsh_shows_titles_of_rules(folder):
    need("zsh")
    command, setup = COMMANDS["zsh"]
    shell = ShellOnTerminal(command, folder, setup=setup)
    shell.write("gpu-admission rules GA70\t")
    assert "GA701" in shell.read_until("Settings must be readable and consistent")
    shell.close()


def test_bash_lists_what_fits(folder):
    need("bash")
    command, setup = COMMANDS["bash"]
    shell = ShellOnTerminal(command, folder, setup=f"{setup}; bind 'set show-all-if-ambiguous on'")
    shell.write("gpu-admission rules GA70\t")
    assert "GA701" in shell.read_until("GA707")
    shell.close()


@pytest.fixture
def fish(run, folder):
    """The lines that fish offers for a command line."""
    need("fish")
    (folder / "gpu-admission.fish").write_text(run("completion", "fish").stdout)

    def fish(line):
        script = f"source gpu-admission.fish; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    return fish


def test_fish_shows_titles_of_rules(fish):
    assert "GA701\tSettings must be readable and consistent" in fish("gpu-admission rules GA70")


def test_fish_completes_files(fish, write, pod):
    write("manifests/pod.yaml", pod())
    assert fish("gpu-admission review manifests/p") == ["manifests/pod.yaml"]


def test_fish_completes_namespaces_of_files(fish, write):
    write("cluster.yaml", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    assert fish("gpu-admission quota --cluster cluster.yaml -n t") == ["team-a"]
