"""Memory of arrays that were freed is kept for the next ones.

glibc hands a freed array of 128 KiB or more back to the kernel, which must clear every page of the next one: half of
the time of an addition. So arrays up to 32 MiB, the most it takes, come from the heap, and up to 256 MiB of that stay
with the process. Larger ones are mapped one by one, and NumPy asks for huge pages there.
"""

from __future__ import annotations

import ctypes
import functools
import sys

# mallopt(3): M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_TRIM, _MAP = -1, -3


@functools.cache
def keep_freed_memory() -> None:
    """Does nothing where the C library is another one."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MAP, 32 << 20)
        mallopt(_TRIM, 256 << 20)
