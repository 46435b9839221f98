"""A finding as a folder that stands alone: its artifacts, `finding.json`, and a README that says what it is."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from assay.errors import InputError, StoreError
from assay.store.api import Store
from assay.store.artifacts import told
from assay.store.finding import Finding, finding_dict, verification_dict

ABOUT = "finding.json"


def export(store: Store, finding: Finding, parent: Path, readme: str) -> Path:
    """The folder, `BUCKET-ID` in `parent`, as a whole or not at all. One of the same finding is replaced; raises
    InputError where there is something else of that name. readme: what README.md says.
    """
    place = parent / folder_name(finding)
    if place.exists() and _id_in(place) != finding.id:
        raise InputError(f"{place}: there is something else of that name; take it away, or choose another --to")
    verified = [verification_dict(found) for found in store.verifications(finding.id)]
    about = finding_dict(finding) | {"verifications": verified}
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".exporting-", dir=parent) as scratch:
            made = Path(scratch) / "new"
            made.mkdir()
            for name in finding.artifacts:
                (made / Path(name).name).write_bytes(store.read(finding, name))
            (made / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
            (made / "README.md").write_text(readme)
            if place.exists():
                place.rename(Path(scratch) / "old")
            made.rename(place)
    except OSError as error:
        raise StoreError(f"{error.filename or place}: {told(error)}; nothing was exported") from error
    return place


def folder_name(finding: Finding) -> str:
    return f"{finding.bucket}-{finding.id[:6]}"


def _id_in(place: Path) -> str | None:
    try:
        found = json.loads((place / ABOUT).read_text())
    except (OSError, ValueError):
        return None
    return found.get("id") if isinstance(found, dict) else None
