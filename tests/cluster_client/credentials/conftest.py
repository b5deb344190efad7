"""Service accounts, kubeconfigs and plugins that give credentials."""

import pytest
import yaml

from tests.cluster_client.credentials.accounts import CERTIFICATE


@pytest.fixture
def service_account(tmp_path):
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("of-the-pod\n")
    (folder / "ca.crt").write_text(CERTIFICATE)
    return folder


@pytest.fixture
def write(tmp_path):
    """Write a kubeconfig; its path."""

    def file(document, name="kubeconfig"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return str(path)

    return file
