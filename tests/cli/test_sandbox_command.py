"""`sandbox`: a Kubernetes API of manifests, started from the command line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from testbed import libyaml

DEPLOY = Path(__file__).parents[2] / "deploy"

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}


def widget(size=1):
    metadata = {"name": "w", "namespace": "team-a"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": {"size": size}}


@pytest.fixture
def start(folder):
    """Start a sandbox on a free port; gives what it printed first, and its process."""
    processes = []

    def start(*arguments, port=0):
        process = subprocess.Popen(
            [sys.executable, "-m", "webhook", "sandbox", *map(str, arguments), "--port", str(port)],
            cwd=folder,
            env={key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process.stdout.readline(), process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def url_of(line):
    return line.split(" at ")[1].split(",")[0]


def fetch(url, body=None):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    data = None if body is None else json.dumps(body).encode()
    with opener.open(urllib.request.Request(url, data, {"Content-Type": "application/json"})) as answer:
        return json.load(answer)


def test_sandbox_serves_manifests_and_ends_at_sigterm(start, cluster):
    line, process = start(cluster, DEPLOY / "install.yaml", "--kubeconfig-out", "sandbox.yaml")
    url = url_of(line)
    assert url.startswith("http://127.0.0.1:")
    assert "gpu-t4-01" in {node["metadata"]["name"] for node in fetch(f"{url}/api/v1/nodes")["items"]}
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/gpu-admission"
    assert fetch(url + path)["webhooks"][0]["name"] == "convert-pods.gpu-admission.io"
    assert fetch(f"{url}/version")["gitVersion"] == "v1.36.2+sandbox"
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[1] == ""
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_does_not_keep_it_from_ending(start, number):
    line, process = start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url_of(line)}/api/v1/pods?watch=true"):
        process.send_signal(number)
        assert process.wait() == 0


def test_usage_is_shown_with_the_kubeconfig(start, folder):
    line, process = start("--kubeconfig-out", "my sandbox.yaml")
    assert line == f"The sandbox serves 0 objects at {url_of(line)}, until Ctrl-C.\n"
    process.terminate()
    assert process.stdout.read() == (
        f"\n  export KUBECONFIG='{folder}/my sandbox.yaml'\n"
        "  kubectl get nodes\n"
        "  gpu-admission serve --url https://localhost:8443\n"
    )
    clusters = libyaml.load((folder / "my sandbox.yaml").read_text())["clusters"]
    assert [cluster["cluster"] for cluster in clusters] == [{"server": url_of(line)}]


def test_usage_without_a_kubeconfig_is_curl(start):
    line, process = start()
    process.terminate()
    assert process.stdout.read() == (
        f"\n  curl {url_of(line)}/api/v1/nodes\n\n"
        "With --kubeconfig-out FILE, it writes what kubectl and gpu-admission serve need.\n"
    )


def test_object_is_created_past_admission_and_then_guarded(start, cluster, write, pod):
    write("pod.yaml", pod("before"))
    url = url_of(start(cluster, "pod.yaml", DEPLOY / "install.yaml")[0])
    assert fetch(f"{url}/api/v1/namespaces/team-a/pods/before")["spec"]["containers"][0]["name"] == "train"
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetch(f"{url}/api/v1/namespaces/team-a/pods", pod("after"))
    with refused.value as answer:
        assert 'failed calling webhook "convert-pods.gpu-admission.io"' in json.load(answer)["message"]


def test_definitions_and_namespaces_come_first_in_any_order(start, write):
    write("all.yaml", widget(), NAMESPACE, DEFINITION)
    url = url_of(start("all.yaml")[0])
    assert fetch(f"{url}/apis/example.com/v1/namespaces/team-a/widgets/w")["spec"] == {"size": 1}


def test_namespace_of_every_cluster_can_be_given_labels(start, write):
    write("default.yaml", {**NAMESPACE, "metadata": {"name": "default", "labels": {"gpu-admission.io/dra": "enabled"}}})
    url = url_of(start("default.yaml")[0])
    assert fetch(f"{url}/api/v1/namespaces/default")["metadata"]["labels"] == {
        "gpu-admission.io/dra": "enabled",
        "kubernetes.io/metadata.name": "default",
    }


CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        pytest.param(
            [widget()],
            "all.yaml:2:7: the sandbox serves no Widget of example.com/v1; it serves what gpu-admission reads, and "
            "custom resources whose CustomResourceDefinition is loaded too",
            id="no-definition",
        ),
        pytest.param(
            [DEFINITION, widget()],
            "all.yaml:29:14: namespace team-a does not exist; load it too",
            id="no-namespace",
        ),
        pytest.param(
            [NAMESPACE, NAMESPACE],
            'all.yaml:6:1: namespaces "team-a" already exists',
            id="twice",
        ),
        pytest.param(
            [NAMESPACE, DEFINITION, widget("big")],
            'all.yaml:30:1: Widget.example.com "w" is invalid: spec.size: Invalid value: "string": spec.size in body '
            'must be of type integer: "string"',
            id="schema",
        ),
        pytest.param(
            [{**DEFINITION, "spec": {**DEFINITION["spec"], "scope": "Everywhere"}}],
            'all.yaml:1:1: CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is invalid: spec.scope: '
            'Unsupported value: "Everywhere": supported values: "Cluster", "Namespaced"',
            id="definition",
        ),
        pytest.param(
            [{**NAMESPACE, "metadata": []}],
            'all.yaml:1:1: Namespace in version "v1" cannot be handled as a Namespace: metadata is no JSON object',
            id="shape",
        ),
        pytest.param(
            ["kind: Pod\n"],
            "all.yaml:1:1: has no apiVersion; every object of Kubernetes names one",
            id="no-object",
        ),
    ],
)
def test_manifest_that_cannot_be_there_is_reported_with_its_place(invoke, write, documents, problem):
    done = invoke("sandbox", write("all.yaml", *documents))
    assert done.exit_code == 2
    assert done.stderr == f"{problem}\n1 problem; nothing was done\n"


def test_problems_of_all_files_are_shown_at_once(invoke, write):
    done = invoke("sandbox", write("a.yaml", CLAIM), "missing.yaml")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[0] == "missing.yaml: no such file or directory"
    assert done.stderr.splitlines()[1].startswith("a.yaml:2:7: the sandbox serves no PersistentVolumeClaim of v1;")


def test_port_in_use_is_a_sentence(run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("sandbox", "--port", port)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: The sandbox cannot listen on port {port} of 127.0.0.1: Address already in use; choose another one with"
        " --port.\n"
    )


@pytest.mark.parametrize(
    "content",
    ["clusters: [{name: production}]\n", "- 1\n", "{", "\x00", "clusters: []\nusers: []\ncontexts: []\n"],
    ids=["another-cluster", "a-list", "no-yaml", "binary", "no-cluster"],
)
def test_file_that_is_no_kubeconfig_of_a_sandbox_is_left_alone(invoke, folder, content):
    (folder / "config").write_text(content)
    done = invoke("sandbox", "--kubeconfig-out", "config")
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: config exists and is not the kubeconfig of a sandbox; name another file\n")
    assert (folder / "config").read_text() == content


def test_pipe_is_no_place_for_a_kubeconfig(invoke, folder):
    os.mkfifo(folder / "pipe")
    done = invoke("sandbox", "--kubeconfig-out", "pipe")
    assert done.exit_code == 2
    assert "pipe exists and is not the kubeconfig of a sandbox" in done.stderr


def test_kubeconfig_of_an_earlier_sandbox_is_written_over(start, folder):
    first, process = start("--kubeconfig-out", "config")
    process.terminate()
    process.wait()
    second, _ = start("--kubeconfig-out", "config")
    assert first.startswith("The sandbox serves")
    assert url_of(second) in (folder / "config").read_text()


def test_kubeconfig_that_cannot_be_written_is_a_sentence(run):
    done = run("sandbox", "--port", 0, "--kubeconfig-out", "missing/config")
    assert done.returncode == 1
    assert done.stderr == "Error: The kubeconfig cannot be written to missing/config: No such file or directory.\n"


def test_kubeconfig_without_a_name_is_a_usage_error(invoke):
    done = invoke("sandbox", "--kubeconfig-out", "")
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: --kubeconfig-out is empty; name a file\n")


@pytest.mark.parametrize(
    "words", ["no scheduler", "no kubelet", "Every client may do everything", "All objects are lost when it ends"]
)
def test_help_says_what_it_is_not(invoke, words):
    assert words in " ".join(invoke("sandbox", "--help").output.split())
