"""Folders with files."""

from __future__ import annotations

import pytest
import yaml


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files below the folder `repo`."""
    monkeypatch.chdir(tmp_path)

    def write(files):
        for name, content in files.items():
            path = tmp_path / "repo" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))

    return write
