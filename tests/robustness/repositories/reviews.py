"""Reviews of a folder by the command line."""

from __future__ import annotations

import json

from click.testing import CliRunner

from webhook.cli import main

NO_MANIFESTS = {
    "package.json": '{"name": "web", "private": true}\n',
    "list.json": "[1, 2]\n",
    "tsconfig.json": '{ // comments are no JSON\n "a": 1 }\n',
    "values.yaml": "image: pytorch\nkind: Deployment\nreplicas: 1\n",
    "Chart.yaml": "apiVersion: v2\nname: train\nversion: 0.1.0\n",
    "workflow.yml": "on: push\njobs: {}\n",
    "kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
    "bare/kustomization.yaml": "resources: [a.yaml]\n",
    "patch.yaml": "- op: add\n  path: /spec/replicas\n  value: 1\n",
    "empty.yaml": "# nothing\n---\n",
    "mkdocs.yml": "theme: !!python/name:x.y\n",
    "text.yaml": "just text\n",
    "secret.yaml": "\0GITCRYPT\0\x01",
}


def pod(name):
    container = {"name": "train", "image": "pytorch", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def review(*arguments, stdin=None):
    return CliRunner().invoke(main, ["review", *arguments], input=stdin, prog_name="gpu-admission")


def names(done):
    return [result["object"]["name"] for result in json.loads(done.stdout)]


WITHOUT_KIND = {name: text for name, text in NO_MANIFESTS.items() if name != "values.yaml"}
