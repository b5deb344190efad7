"""A webhook that charges the namespace `team-a` of a sandbox, as in tests/server/quotas."""

# Fixtures are found by their names here.
from tests.server.conftest import (  # noqa: F401
    authority,
    client_authority,
    client_context,
    client_of,
    cluster,
    pod,
    review_of,
    start_webhook,
)
from tests.server.quotas.conftest import (  # noqa: F401
    api,
    ask,
    namespace,
    of_template,
    sandbox,
    serve,
    shown,
    train,
    writer,
)
