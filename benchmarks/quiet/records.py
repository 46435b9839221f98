"""What the runs over the list share: which programs in what order, and the file of records that a run goes on with."""

from __future__ import annotations

import argparse
import json
import re
import sys
import zlib
from pathlib import Path
from typing import Any

from programs import Entry


def expression(text: str) -> str:
    """The regular expression of --filter."""
    try:
        re.compile(text)
    except re.error as e:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {e}") from e
    return text


def shuffled(entry: Entry) -> int:
    """A key that puts programs in mixed order, always the same."""
    return zlib.crc32(entry.title.encode())


def read(path: Path) -> list[dict[str, Any]]:
    """The records of an earlier run; the last line may have been cut short, and is then taken off the file."""
    if not path.exists():
        return []
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole)
    try:
        return [json.loads(each) for each in whole.splitlines()]
    except json.JSONDecodeError as error:
        sys.exit(f"{path}: no record of an earlier run: {error}")
