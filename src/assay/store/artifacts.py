"""Bytes by their digest: `sha256/ab/abcd...`, in a folder or at an fsspec URL.

Written under another name first and renamed, so that what has a digest's name has its content; written again it is the
same, so two processes may. A name that a kill left unfinished is removed a day later.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import uuid
from pathlib import Path
from typing import Any, Protocol

from assay.errors import StoreError
from assay.store.finding import digest_of

UNFINISHED = "unfinished"
MISSING = "the artifact of a finding is missing: take it from a backup"
STALE_S = 86400.0


class Artifacts(Protocol):
    """Where artifacts are. Both raise StoreError in one line."""

    def put(self, data: bytes) -> str:
        """The digest; on return the bytes are there to stay."""

    def get(self, digest: str) -> bytes:
        """The bytes; what was changed since is refused."""


def artifacts_at(place: str | Path) -> Artifacts:
    """A folder, or an fsspec URL such as gs://bucket/assay. Nothing is made before the first `put`."""
    text = str(place)
    if "://" not in text:
        return Folder(Path(text))
    if text.startswith("file://"):
        return Folder(Path(text.removeprefix("file://")))
    return Remote(text)


class Folder:
    """A folder of this machine, or one that several share."""

    def __init__(self, root: Path) -> None:
        self.root = root
        _sweep(root / UNFINISHED)

    def put(self, data: bytes) -> str:
        digest = digest_of(data)
        path = self._path(digest)
        if path.exists():
            return digest
        unfinished = self.root / UNFINISHED / uuid.uuid4().hex
        try:
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with unfinished.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(unfinished, path)
            finally:
                with contextlib.suppress(OSError):
                    unfinished.unlink(missing_ok=True)
            _sync(path.parent)
        except OSError as error:
            raise StoreError(f"{error.filename or path}: {told(error)}") from error
        return digest

    def get(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path}: {told(error)}; {MISSING}") from error
        return _whole(data, digest, str(path))

    def _path(self, digest: str) -> Path:
        return self.root / "sha256" / digest[:2] / digest


class Remote:
    """A place that fsspec knows."""

    def __init__(self, url: str) -> None:
        import fsspec

        self.url = url
        try:
            found: tuple[Any, str] = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise StoreError(f"{url}: {_line(error)}") from error
        self.fs, self.root = found

    def put(self, data: bytes) -> str:
        digest = digest_of(data)
        path = self._path(digest)
        unfinished = f"{self.root}/{UNFINISHED}/{uuid.uuid4().hex}"
        try:
            if not self.fs.exists(path):
                self.fs.makedirs(f"{self.root}/{UNFINISHED}", exist_ok=True)
                self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
                self.fs.pipe_file(unfinished, data)
                self.fs.mv(unfinished, path)
        except Exception as error:  # whatever the place's own library raises
            raise StoreError(f"{self.url}: {_line(error)}; the artifact was not stored") from error
        return digest

    def get(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            data: bytes = self.fs.cat_file(path)
        except Exception as error:  # the same
            raise StoreError(f"{self.url}: {_line(error)}; {MISSING}") from error
        return _whole(data, digest, path)

    def _path(self, digest: str) -> str:
        return f"{self.root}/sha256/{digest[:2]}/{digest}"


def told(error: OSError) -> str:
    """What an error of the file system means, and what to do."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"{error.strerror}; make room and start again, nothing that was stored is lost"
    return error.strerror or type(error).__name__


def _whole(data: bytes, digest: str, where: str) -> bytes:
    if digest_of(data) != digest:
        raise StoreError(f"{where}: its content is not what was stored; take it from a backup")
    return data


def _sync(folder: Path) -> None:
    """The name itself is on disk when this returns."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sweep(folder: Path) -> None:
    """What a kill left. Another process may sweep as well, so what is gone is gone."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - STALE_S:
                path.unlink()


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
