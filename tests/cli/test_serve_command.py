"""`serve`: the webhook, started from the command line."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.request

import pytest

from webhook.cli.serve.serve_options import ServeOptions
from webhook.cli.serve.server_start import replica_config


@pytest.fixture
def server(folder, cluster):
    """Start a server on free ports; its log tells which."""
    options = ["--ca-out", "ca.pem", "--port", "0", "--probe-port", "0", "--explain-port", "0", "--drain-delay", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "webhook", "serve", "--cluster", cluster, *options],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")},
        stderr=subprocess.PIPE,
        text=True,
    )
    line = json.loads(process.stderr.readline())
    words = line["message"].replace(",", "").split()
    yield process, int(words[3]), int(words[-1])
    process.kill()
    process.wait()
    process.stderr.close()


def fetch(url, body=None, **options):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(**options))
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with opener.open(request) as answer:
        return json.load(answer)


def test_server_answers_reviews_and_ends_at_sigterm(server, folder, pod):
    process, port, probe_port = server
    document = pod(nodeSelector={"nvidia.com/gpu.count": "8"})
    document["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1}
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "team-a",
            "object": document,
        },
    }
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    answer = fetch(f"https://localhost:{port}/convert-pods", json.dumps(review).encode(), context=context)
    assert answer["response"]["allowed"] is False
    assert answer["response"]["status"]["message"].endswith("[GA307]")
    assert fetch(f"http://127.0.0.1:{probe_port}/readyz")["ready"] is True
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    lines = [json.loads(line) for line in process.stderr]
    assert [line["verdict"] for line in lines if "verdict" in line] == ["denied"]
    assert lines[-1]["message"] == "stopped"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--tls-cert", "tls.crt"], "--tls-cert and --tls-key go together"),
        (
            ["--tls-cert", "tls.crt", "--tls-key", "tls.key", "--ca-out", "ca.pem"],
            "--ca-out is for the certificate that is created without --tls-cert",
        ),
        (
            ["--client-ca", "ca.pem"],
            "--client-ca and --client-name go together: an authority issues certificates to many",
        ),
        (["--client-name", ""], "--client-ca and --client-name go together: an authority issues certificates to many"),
        (["--client-name", "x"], "--client-ca and --client-name go together: an authority issues certificates to many"),
        (
            ["--client-ca", "ca.pem", "--client-name", "kube-apiserver", "--client-name", " "],
            "--client-name is empty; give the common name in the client's certificate",
        ),
        (["--ca-out", ""], "--ca-out is empty; name a file"),
        (["--tls-cert", "", "--tls-key", ""], "--tls-cert is empty; name a file"),
        (["--client-ca", "", "--client-name", "x"], "--client-ca is empty; name a file"),
        (["--drain-delay", "nan"], "--drain-delay is nan; give a number of seconds"),
        (["--drain-delay", "inf"], "--drain-delay is inf; give a number of seconds"),
        (["--port", "70000"], "Invalid value for '--port': 70000 is not in the range 0<=x<=65535."),
        (["--max-connections", "7"], "Invalid value for '--max-connections': 7 is not in the range x>=8."),
        (["--drain-delay", "-1"], "Invalid value for '--drain-delay': -1.0 is not in the range x>=0."),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(invoke, cluster, arguments, sentence):
    done = invoke("serve", "--cluster", cluster, *arguments)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"Error: {sentence}\n")


@pytest.mark.parametrize("option", ["--kubeconfig", "--context", "--url"])
def test_option_of_a_running_cluster_is_refused_beside_files(invoke, cluster, option):
    done = invoke("serve", "--cluster", cluster, option, "x")
    assert done.exit_code == 2
    assert done.stderr.endswith(
        f"Error: {option} is for a running cluster, and --cluster is for files; leave one of them out\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["--settings", "policy.yaml"],
            "--settings goes with --cluster; a running cluster has its settings in its GPUAdmissionPolicy",
        ),
        (
            ["--ca-out", "ca.pem"],
            (
                "--ca-out goes with --cluster; in a running cluster, the authority is written into the webhook "
                "configurations"
            ),
        ),
        (
            ["--url", "https://localhost", "--tls-cert", "tls.crt", "--tls-key", "tls.key"],
            "--url creates its own certificate; leave --tls-cert and --tls-key out",
        ),
        (
            ["--url", "http://localhost:8443"],
            (
                "--url must begin with https:// and a host; write https://HOST:PORT, where the API server can reach this "
                "process"
            ),
        ),
        (
            ["--url", "https://me:secret@localhost"],
            "--url must not name a user; write https://HOST:PORT, where the API server can reach this process",
        ),
        (
            ["--url", "https://localhost/webhooks"],
            (
                "--url must end with the host or its port; the paths of the webhooks are appended; write "
                "https://HOST:PORT, where the API server can reach this process"
            ),
        ),
        (
            ["--url", "https://localhost:no"],
            (
                "--url is not a URL: Port could not be cast to integer value as 'no'; write https://HOST:PORT, where the API "
                "server can reach this process"
            ),
        ),
    ],
)
def test_options_that_do_not_suit_a_running_cluster_are_usage_errors(invoke, arguments, sentence):
    done = invoke("serve", *arguments)
    assert done.exit_code == 2
    assert done.stderr.endswith(f"Error: {sentence}\n")


def test_kubeconfig_that_is_missing_is_reported_in_a_sentence(run):
    done = run("serve", "--kubeconfig", "missing.yaml")
    assert done.returncode == 1
    assert done.stderr == "Error: kubeconfig file missing.yaml not found\n"


def test_certificate_that_is_missing_beside_a_cluster_is_reported_in_a_sentence(run, write):
    kubeconfig = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
"""
    files = ("--tls-cert", "tls.crt", "--tls-key", "tls.key")
    done = run("serve", "--kubeconfig", write("kubeconfig.yaml", kubeconfig), *files)
    assert done.returncode == 1
    assert done.stderr == (
        "Error: The certificate file tls.crt does not exist; mount its Secret there, or correct the path.\n"
    )


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_signal_before_there_is_a_server_ends_the_process(run, write, name):
    kubeconfig = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
users:
- name: me
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1
      command: sh
      args: [-c, "kill -$SIGNAL $PPID"]
      interactiveMode: Never
"""
    done = run("serve", "--kubeconfig", write("kubeconfig.yaml", kubeconfig), SIGNAL=name)
    assert (done.returncode, done.stderr) == (0, "")


WITH_A_RESOLVER_THAT_NEVER_ANSWERS = """
import socket, threading
from webhook.cli import main

resolve = socket.getaddrinfo

def wait(host, *others, **more):
    if host != "api.test":
        return resolve(host, *others, **more)
    print("asked", flush=True)
    threading.Event().wait()

socket.getaddrinfo = wait
main()
"""


def test_signal_ends_a_process_that_resolves_a_name(write, folder):
    kubeconfig = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://api.test:9"}}]
users: [{name: me, user: {}}]
"""
    ports = ("--port", "0", "--probe-port", "0", "--explain-port", "0", "--peer-port", "0")
    command = [sys.executable, "-c", WITH_A_RESOLVER_THAT_NEVER_ANSWERS, "serve", *ports]
    environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    with subprocess.Popen(
        [*command, "--kubeconfig", write("kubeconfig.yaml", kubeconfig)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == "asked\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            process.kill()


def test_problems_of_cluster_and_settings_are_shown_at_once(run, write):
    done = run("serve", "--cluster", write("nodes.yaml", "kind: Node\n"), "--settings", "missing.yaml")
    assert done.returncode == 2
    assert done.stderr == (
        "missing.yaml: no such file or directory\n"
        "nodes.yaml:1:1: has no apiVersion; every object of Kubernetes names one\n"
        "2 problems; nothing was done\n"
    )


def test_certificate_that_is_missing_is_reported_in_a_sentence(run, cluster):
    done = run("serve", "--cluster", cluster, "--tls-cert", "tls.crt", "--tls-key", "tls.key")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "tls.crt" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("url", "port", "expected"),
    [
        ("https://localhost:9443", None, 9443),
        ("https://localhost", None, 8443),
        (None, None, 8443),
        ("https://localhost:9443", 8080, 8080),
    ],
)
def test_port_is_that_of_the_url_unless_it_is_given(url, port, expected):
    assert replica_config(serve_options(url=url, port=port)).port == expected


@pytest.mark.parametrize(
    ("host", "peer_host", "expected"),
    [("", None, ""), ("0.0.0.0", None, ""), ("10.0.0.7", None, "10.0.0.7"), ("0.0.0.0", "10.0.0.8", "10.0.0.8")],
    ids=["unknown", "every address", "that of the webhook", "given"],
)
def test_other_replicas_reach_this_one_at_its_address(host, peer_host, expected):
    assert replica_config(serve_options(host=host, peer_host=peer_host)).peer_host == expected


def serve_options(**given):
    """The options of a command line that names none besides these."""
    absent = ["settings", "kubeconfig", "context", "namespace", "tls_cert", "tls_key", "ca_out", "client_ca", "url"]
    defaults = {
        "cluster": (),
        "client_name": (),
        "host": "",
        "port": None,
        "probe_port": 0,
        "explain_port": 0,
        "ui_port": None,
        "peer_port": 0,
        "peer_host": None,
        "max_connections": 2048,
        "max_connections_per_address": 1024,
        "drain_delay": 0.0,
        "log_level": "info",
    }
    return ServeOptions(**{**dict.fromkeys(absent), **defaults, **given})
