"""A server imports every package before its first call."""

import json
import subprocess
import sys

CODE = """\
import json, sys
from webhook.server.admission import Admission
from webhook.server.app import Calls
from webhook.server.metrics import Metrics
Calls(Admission(None, None, Metrics()), None)
print(json.dumps(sorted(sys.modules)))
"""


def test_rooms_are_imported_with_the_application():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert {"policies.configuration", "policies.conversion.convert", "policies.placement"} <= set(
        json.loads(done.stdout)
    )
