"""Findings on a mig-parted ConfigMap."""

import json

import pytest

from tests.configuration.mig_parted.config_maps import config_map


@pytest.fixture
def findings_of(examined):
    """`findings_of("GA150", file)`: path inside the file, message and remedy of a rule's findings, and line of the file."""

    def tell(rule, body, *cluster, **kwargs):
        text = "\n---\n".join([config_map(body, **kwargs), *map(json.dumps, cluster)])
        return [
            (
                ".".join(map(str, one.path[2:])),
                str(one.severity),
                one.message,
                one.remedy,
                one.place.line if one.place else 0,
            )
            for one in examined(text)
            if one.rule.id == rule
        ]

    return tell
