"""Shares of the work: together everything once, whatever the process, and of about one size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from snippets import BODIES, VARIANTS, module_of

from assay.errors import InputError
from assay.hlo.parse import parse_module
from assay.isolate.graph.cut import cut
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.shards import BASE, BLAS, Shard, cost, shard, share

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.hlo"))

SNIPPETS = {**BODIES, **VARIANTS}

PRINT = """
import json, sys
from assay.hlo.parse import parse_module
from assay.isolate.graph.cut import cut
from assay.isolate.graph.keys import dedupe
from assay.isolate.graph.shards import Shard, share
found = dedupe(cut(parse_module(open(sys.argv[1]).read())))
print(json.dumps([[[d.key, d.group, d.piece.name, [p.name for p in d.instances]] for d in share(found, Shard(i, 3))]
                  for i in (1, 2, 3)]))
"""


def shares_of(path: Path, seed: str) -> list[list[list[object]]]:
    """What another process finds."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", PRINT, str(path)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found: list[list[list[object]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_shares_of_other_processes_are_everything_once(path: Path) -> None:
    one, other = shares_of(path, "1"), shares_of(path, "2")
    assert one == other
    found = [d[0] for part in (one[0], other[1], one[2]) for d in part]
    assert sorted(map(str, found)) == sorted(d.key for d in dedupe(cut(parse_module(path.read_text()))))


@pytest.mark.parametrize("count", [1, 2, 5, 16, 100])
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_shares_are_everything_once_and_of_one_size(path: Path, count: int) -> None:
    pieces = dedupe(cut(parse_module(path.read_text())))
    parts = [share(pieces, Shard(i + 1, count)) for i in range(count)]
    assert sorted(d.key for part in parts for d in part) == sorted(d.key for d in pieces)
    sums = [sum(cost(d.piece) for d in part) for part in parts]
    dear = [*sorted((cost(d.piece) for d in pieces), reverse=True), *[0] * count]
    least = max(dear[0], dear[count - 1] + dear[count], sum(sums) / count)  # of any way to deal them out
    assert max(sums) <= 4 / 3 * least


def test_the_order_and_the_names_of_pieces_do_not_matter() -> None:
    pieces = dedupe(cut(parse_module(PROGRAMS[0].read_text())))
    renamed = dedupe(cut(parse_module(PROGRAMS[0].read_text().replace("fusion.", "f_"))))
    mine = {d.key for d in share(pieces, Shard(2, 3))}
    assert {d.key for d in share(pieces[::-1], Shard(2, 3))} == mine
    assert {d.key for d in share(renamed, Shard(2, 3))} == mine


def test_cost_by_hand() -> None:
    text = """HloModule m
%f (p: f32[8,16], q: f32[16,4]) -> f32[8,4] {
  %p = f32[8,16]{1,0} parameter(0)
  %q = f32[16,4]{1,0} parameter(1)
  %d = f32[8,4]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %t = f32[8,4]{1,0} tanh(%d)
}
ENTRY %e (x: f32[8,16], y: f32[16,4]) -> f32[8,4] {
  %x = f32[8,16]{1,0} parameter(0)
  %y = f32[16,4]{1,0} parameter(1)
  ROOT %r = f32[8,4]{1,0} fusion(%x, %y), kind=kLoop, calls=%f
}
"""
    (piece,) = cut(parse_module(text)).pieces
    moved = 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert cost(piece) == BASE + moved + (32 + 2 * 32 * 16 // BLAS) + 32


@pytest.mark.parametrize("name", SNIPPETS)
def test_every_opcode_costs_something(name: str) -> None:
    for distinct in dedupe(cut(parse_module(module_of(SNIPPETS[name])))):
        assert cost(distinct.piece) >= BASE


def test_what_a_shard_is_called() -> None:
    assert shard("3/16") == Shard(3, 16)
    for wrong in ("0/4", "5/4", "1", "1/0", "-1/2", "a/b", "1/2/3", ""):
        with pytest.raises(InputError, match="--shard"):
            shard(wrong)
