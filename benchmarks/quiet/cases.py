"""What assay checks: those programs whose numbers are in QUIET_NUMBERS, which are of one width."""

import os

from everything import everything

NUMBERS = [int(number) for number in os.environ.get("QUIET_NUMBERS", "").split()]
ALL = everything()
ENTRIES = [ALL[number] for number in NUMBERS] if NUMBERS else ALL
X64 = any(entry.wide for entry in ENTRIES)


def cases():
    for entry in ENTRIES:
        yield entry.title, entry.function, entry.shapes()
