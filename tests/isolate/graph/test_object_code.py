"""Two functions are one where they do the same, whatever their names: of C, so that one knows what they do."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from assay.isolate.graph.object_code import functions, is_elf

CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(CC is None, reason="no C compiler")

PLAIN = "float {f}(float x) {{ return x * 0.5f; }}"
TABLE = "static const int t[64] = {{1, 2, {last}}}; int {f}(int i) {{ return t[i & 63]; }}"
CALLS = "float {g}(float); float {f}(float x) {{ return {g}(x) + 1; }}"
TWICE = "__attribute__((noinline)) int in_{f}(int x) {{ return x {op} 3; }} int {f}(int x) {{ return in_{f}(x) + 1; }}"
LOOPED = "int odd_{f}(int); int {f}(int n) {{ return n ? odd_{f}(n - 1) + 1 : 7; }} \
int odd_{f}(int n) {{ return n ? {f}(n - 1) + 2 : 9; }}"


def compiled(folder: Path, text: str) -> dict[str, str]:
    source, target = folder / "a.c", folder / "a.o"
    source.write_text(text)
    flags = ["-O1", "-fno-optimize-sibling-calls", "-fno-inline", "-c"]
    subprocess.run([str(CC), *flags, str(source), "-o", str(target)], check=True, timeout=60)
    data = target.read_bytes()
    if not is_elf(data):
        pytest.skip("object files here are not ELF")
    return functions(data)


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (PLAIN.format(f="a"), PLAIN.format(f="b"), PLAIN.format(f="b").replace("0.5", "0.25")),
        (TABLE.format(f="a", last=3), TABLE.format(f="b", last=3), TABLE.format(f="b", last=4)),
        (CALLS.format(f="a", g="expf"), CALLS.format(f="b", g="expf"), CALLS.format(f="b", g="logf")),
        (TWICE.format(f="a", op="*"), TWICE.format(f="b", op="*"), TWICE.format(f="b", op="-")),
        (LOOPED.format(f="a"), LOOPED.format(f="b"), LOOPED.format(f="b").replace("9", "8")),
    ],
    ids=["constant", "table", "function from outside", "function inside", "functions that call each other"],
)
def test_names_do_not_count_and_the_rest_does(tmp_path: Path, one: str, same: str, other: str) -> None:
    a, b, c = (compiled(tmp_path, text) for text in (one, same, other))
    assert a["a"] == b["b"] != c["b"]


def test_functions_of_one_file_are_told_apart(tmp_path: Path) -> None:
    found = compiled(tmp_path, "\n".join(PLAIN.format(f=f"f{i}").replace("0.5", f"{i}.5") for i in range(5)))
    assert sorted(found) == [f"f{i}" for i in range(5)]
    assert len(set(found.values())) == 5
