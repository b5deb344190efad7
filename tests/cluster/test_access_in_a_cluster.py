"""The service runs as the ServiceAccount that deploy/ makes for it, and may do what it does."""

import re

ON_PURPOSE = re.compile("nvidia-gpu-operator")
"""Another name of the operator's namespace, where it has no RoleBinding."""


def test_service_may_do_all_it_tries_to_do(real):
    reported = [*real.service.log().splitlines(), *real.service.probe()["notes"]]
    refused = [line for line in reported if "forbidden" in line and "denied the request" not in line]
    assert [line for line in refused if not ON_PURPOSE.search(line)] == []
