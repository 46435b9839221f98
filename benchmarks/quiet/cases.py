"""What assay checks: the programs whose titles are in QUIET_TITLES (JSON), or all; one width for all of them."""

import json
import os

from everything import everything

TITLES = json.loads(os.environ.get("QUIET_TITLES", "null"))
ENTRIES = [entry for entry in everything() if TITLES is None or entry.title in TITLES]
X64 = any(entry.wide for entry in ENTRIES)


def cases():
    for entry in ENTRIES:
        yield entry.title, entry.function, entry.shapes()
