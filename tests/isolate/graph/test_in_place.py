"""Kernels judged where they stand: dumps written by hand, and libtpu's own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from assay.checking import api
from assay.hlo.parse import parse_module
from assay.hlo.printer import print_for_compiler
from assay.hlo.shape import DTYPES
from assay.isolate.graph import in_place
from assay.isolate.graph.handed import Handed
from assay.isolate.graph.in_place import CLASSES, compiled, judge_again, judge_kernels
from assay.isolate.graph.kernels import Kernel, kernels
from assay.isolate.graph.tpu_alone import stand_alone
from assay.isolate.graph.tpu_form import FLAGS
from assay.llo.files import read_dump
from assay.oracle.verdict import MismatchClass, Verdict
from assay.programs.program import from_hlo
from assay.reference.value import Ball
from assay.report.isolation import PieceResult
from assay.toolchain import Worker

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).parents[2] / "llo" / "dumped.py")
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)
HLO, STAGES, planted, write = dumped.HLO, dumped.STAGES, dumped.planted, dumped.write

V5E = api.Request(target="tpu:v5e")
SETTINGS = api.settings_for(V5E, {})
LAST = "66-final_bundles"


def rows(folder: Path, stages: dict[str, str], hlo: str = HLO, **options) -> list[PieceResult]:
    """Of the dump that `stages` are, judged by `hlo`."""
    return list(judge_kernels(parse_module(hlo), read_dump(write(folder, stages)), V5E, SETTINGS, **options))


def row(folder: Path, stages: dict[str, str], hlo: str = HLO, **options) -> PieceResult:
    (found,) = rows(folder, stages, hlo, **options)
    return found


def test_a_right_kernel_agrees_on_every_class(tmp_path):
    found = row(tmp_path, STAGES)
    assert (found.name, found.opcode, found.computation, found.instances) == ("k", "subtract", "main", ("k",))
    assert (found.verdict, found.elements, found.outside, found.undecided) == (Verdict.AGREE, 1024, 0, 0)
    assert all(name in found.inputs for name in CLASSES)


def test_a_wrong_kernel_is_a_mismatch_with_the_inputs_that_show_it(tmp_path):
    found = row(tmp_path, planted(LAST, "vsub.f32", "vadd.f32"))
    assert (found.verdict, found.klass) == (Verdict.MISMATCH, MismatchClass.MISCOMPILE)
    assert found.outside > 1000
    x, y = found.arguments
    assert (x.shape, x.dtype, y.shape) == ((8, 128), np.float32, (8, 128))
    # y - x for x - y is seen as what it is.
    swapped = row(tmp_path / "swapped", planted(LAST, "vsub.f32 %v3_v0, %v4_v1", "vsub.f32 %v4_v1, %v3_v0"))
    assert swapped.pattern == "negated"


def test_what_is_right_may_be_said_by_another_module(tmp_path):
    found = row(tmp_path, STAGES, HLO.replace("subtract(%x, %y)", "add(%x, %y)"))
    assert (found.verdict, found.opcode) == (Verdict.MISMATCH, "add")


def test_what_is_not_wanted_or_done_is_not_judged(tmp_path):
    (first,) = rows(tmp_path, STAGES)
    dump, module = read_dump(tmp_path), parse_module(HLO)
    assert not list(judge_kernels(module, dump, V5E, SETTINGS, done={first.key}))
    assert not list(judge_kernels(module, dump, V5E, SETTINGS, wanted=lambda k: k.name != "k"))
    assert len(list(judge_kernels(module, dump, V5E, SETTINGS, done={"another"}, wanted=lambda k: k.name == "k"))) == 1


def test_a_result_that_nobody_wrote_is_no_result(tmp_path):
    found = row(tmp_path, planted(LAST, "sm:$0xff] /*vst_source", "sm:$0x7f] /*vst_source"))
    assert (found.verdict, found.outside) == (Verdict.NONDETERMINISTIC, 128)
    assert "memory that nobody wrote" in found.why


BITS = """ENTRY %main (x: s32[8,128], y: s32[8,128]) -> f32[8,128] {
  %x = s32[8,128]{1,0:T(8,128)} parameter(0)
  %y = s32[8,128]{1,0:T(8,128)} parameter(1)
  ROOT %k = f32[8,128]{1,0:T(8,128)} fusion(%x, %y), kind=kLoop, calls=%fused
}
"""
FUSED = """%fused (a: s32[8,128], b: s32[8,128]) -> f32[8,128] {
  %a = s32[8,128]{1,0:T(8,128)} parameter(0)
  %b = s32[8,128]{1,0:T(8,128)} parameter(1)
  %c = s32[8,128]{1,0:T(8,128)} subtract(%a, %b)
  ROOT %d = f32[8,128]{1,0:T(8,128)} bitcast-convert(%c)
}

"""


@pytest.mark.parametrize(("opcode", "verdict"), [("vsub.s32", Verdict.AGREE), ("vadd.s32", Verdict.MISMATCH)])
def test_bits_of_a_subnormal_may_stay_in_what_is_only_moved(tmp_path, opcode, verdict):
    """Small differences of integers, read as f32, are subnormal: vectors of bits are not flushed."""
    stages = {
        name: text.replace("f32[8,128], index: 0", "s32[8,128], index: 0").replace(
            "f32[8,128], index: 1", "s32[8,128], index: 1"
        )
        for name, text in planted(LAST, "vsub.f32", opcode).items()
    }
    hlo = "HloModule jit_f, is_scheduled=true\n\n" + FUSED + BITS
    assert row(tmp_path, stages, hlo).verdict is verdict


def test_only_memory_is_nothing_to_judge(tmp_path):
    hlo = HLO.replace("subtract(%x, %y)", 'custom-call(), custom_call_target="AllocateBuffer"')
    found = row(tmp_path, STAGES, hlo)
    assert (found.verdict, found.elements) == (Verdict.AGREE, 0)


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (planted(LAST, "vsub.f32", "vfrobnicate.f32"), "vfrobnicate"),
        ({"01-original": STAGES["01-original"]}, "no stage"),
    ],
)
def test_what_the_simulator_cannot_run_is_unverified(tmp_path, stages, words):
    found = row(tmp_path, stages)
    assert found.verdict is Verdict.UNVERIFIED
    assert words in found.why


WILD = planted(LAST, "vld [vmem:[%s0_s0] sm", "vld [vmem:[%s0_s0 + $0x400000] sm")
"""Reads where no memory is."""


@pytest.mark.parametrize("reached", [True, False])
def test_a_trap_on_drawn_inputs_is_told_where_the_program_comes_to_it(tmp_path, reached):
    x = np.ones((8, 128), np.float32)
    asked: list[str] = []

    def handed(kernel: Kernel) -> Iterable[tuple[str, list[np.ndarray]]]:
        asked.append(kernel.name)
        return [("as handed", [x, x])] if reached else []

    found = row(tmp_path, WILD, handed=handed)
    assert found.verdict is (Verdict.CRASH if reached else Verdict.UNVERIFIED)
    assert "belongs to nothing" in found.why
    assert asked == ["k"]


def test_operands_that_keep_a_promise_are_those_of_the_program(tmp_path):
    tied = """%fused (a: f32[8,128], b: f32[8,128]) -> f32[8,128] {
  %a = f32[8,128]{1,0:T(8,128)} parameter(0)
  %b = f32[8,128]{1,0:T(8,128)} parameter(1)
  %t = token[] after-all(%b)
  %c = f32[8,128]{1,0:T(8,128)} add-dependency(%a, %t)
  ROOT %d = f32[8,128]{1,0:T(8,128)} negate(%c)
}

ENTRY"""
    # The kernel computes x - y, and the program always has y = 2 x.
    hlo = HLO.replace("ENTRY", tied).replace("subtract(%x, %y)", "fusion(%x, %y), kind=kLoop, calls=%fused")
    assert row(tmp_path, STAGES, hlo).verdict is Verdict.UNVERIFIED
    x = np.random.default_rng(0).standard_normal((8, 128)).astype(np.float32)
    module, dump = parse_module(hlo), read_dump(tmp_path)
    for factor, verdict in ((2, Verdict.AGREE), (3, Verdict.MISMATCH)):
        sets = [(f"y = {factor} x", [x, factor * x])]
        handed = Handed(module, dump, "v5e", SETTINGS.policy, lambda sets=sets: sets)
        (found,) = judge_kernels(module, dump, V5E, SETTINGS, handed=handed)
        assert found.verdict is verdict
        assert "hands it to k" in found.inputs


def test_agreement_on_nan_operands_is_none(tmp_path):
    module, dump = parse_module(HLO), read_dump(write(tmp_path, STAGES))
    (kernel,) = kernels(module, dump)
    ones, nans = np.ones((8, 128), np.float32), np.full((8, 128), np.nan, np.float32)
    blank = judge_again(kernel, V5E, SETTINGS, "given", [nans, ones])
    assert (blank.verdict, blank.masked, blank.elements) == (Verdict.UNVERIFIED, 1024, 1024)
    assert blank.why.startswith("nothing is compared")
    nans[0, 0] = 1
    some = judge_again(kernel, V5E, SETTINGS, "given", [nans, ones])
    assert (some.verdict, some.masked) == (Verdict.AGREE, 1023)


def test_a_little_outside_a_sampled_bound_is_not_sure():
    ball = Ball(DTYPES["f32"], np.zeros(4), np.ones(4))

    class Sampled:
        """Of bounds what `weigh` asks for: radii that say nothing, and what was sampled in their stead."""

        module = parse_module("HloModule m\n\nENTRY e {\n  ROOT x = f32[4]{0} parameter(0)\n}\n")
        settings = SETTINGS

        def plain(self):
            return [Ball(DTYPES["f32"], np.zeros(4), np.full(4, 1e30))]

        def sharp(self):
            return [ball], [True]

        def certain(self, sampled):
            return [ball]

        def measures(self):
            return [None]

    def outside(*values: float) -> tuple[int, int]:
        (found,) = in_place._weighed(Sampled(), [np.array(values, np.float32)]).comparisons
        return found.outside, found.undecided

    assert outside(1, 0, -1, 0.5) == (0, 0)
    assert outside(1.1, 0, 7.5, 0) == (0, 2)
    assert outside(1.1, 0, 8.5, 0) == (2, 0)


# ---- libtpu


def block(x, w):
    """Two layers of a transformer, and between them what x loses in f16."""

    def layer(h, weights):
        q, k, v = (h @ one for one in weights[:3])
        h = h + jax.nn.softmax(q @ k.T / 8.0, axis=-1) @ v
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        return h + jax.nn.gelu(h @ weights[3])

    h = layer(x, w[0])
    return layer(h, w[1]), h - h.astype(jnp.float16).astype(jnp.float32)


SHAPES = (jax.ShapeDtypeStruct((128, 128), jnp.float32), jax.ShapeDtypeStruct((2, 4, 128, 128), jnp.float32))


@pytest.mark.tpu
def test_the_lost_rounding_of_figure_4_is_convicted_where_it_is_and_alone(tpu_worker: Worker):
    program = api.lower(block, SHAPES, "tpu")(tpu_worker)
    with compiled(program, V5E, tpu_worker) as built:
        found = list(judge_kernels(built.module, built.dump, V5E, SETTINGS))
        assert len(found) > 5
        (wrong,) = (r for r in found if r.verdict is not Verdict.AGREE)
        assert (wrong.verdict, wrong.klass) == (Verdict.MISMATCH, MismatchClass.EXCESS_PRECISION)
        assert "all zero" in wrong.pattern
        alone = stand_alone(built.module, built.dump, wrong, V5E, SETTINGS, tpu_worker)
    assert (alone.identical, alone.why) == (True, "")
    # No pass of LLO is to blame, and with every declared rounding in place the same compiler is right.
    votes = {"before LLO's passes": wrong.votes["target"], "unfused": "agrees", "reference": "judges"}
    assert alone.votes == votes
    assert alone.module is not None
    text = print_for_compiler(alone.module)
    again = from_hlo("alone", text, text.encode(), "hlo-text")
    request = api.Request(target="tpu:v5e", flags=FLAGS)
    with compiled(again, request, tpu_worker) as built:
        result = {r.name: r for r in judge_kernels(built.module, built.dump, request, SETTINGS)}
    assert (result[wrong.name].klass, result[wrong.name].outside) == (MismatchClass.EXCESS_PRECISION, wrong.outside)


@pytest.mark.tpu
def test_a_cut_that_is_another_kernel_is_a_reproducer_only_where_it_is_wrong(tpu_worker: Worker, tmp_path: Path):
    module, right = parse_module(HLO), write(tmp_path / "right", STAGES)
    dump = read_dump(right)  # of a kernel that libtpu would write otherwise
    (found,) = judge_kernels(parse_module(HLO.replace("subtract(", "add(")), dump, V5E, SETTINGS)
    assert found.verdict is Verdict.MISMATCH
    alone = stand_alone(module, dump, found, V5E, SETTINGS, tpu_worker)
    assert (alone.module, alone.identical) == (None, False)  # libtpu is not wrong of the difference
    assert "not wrong" in alone.why
    assert stand_alone(parse_module(HLO), read_dump(right), replace(found, name="x"), V5E, SETTINGS, tpu_worker).why


@pytest.mark.tpu
@pytest.mark.slow
def test_without_excess_precision_nothing_is_convicted(tpu_worker: Worker):
    program = api.lower(block, SHAPES, "tpu")(tpu_worker)
    request = api.Request(target="tpu:v5e", options={"xla_allow_excess_precision": "false"})
    with compiled(program, request, tpu_worker) as built:
        found = list(judge_kernels(built.module, built.dump, request, api.settings_for(request, {})))
    assert {r.verdict for r in found} == {Verdict.AGREE}


def ragged(x, w, sizes, table, index):
    """A ragged dot, whose kernel takes the starts of groups beside a mask; a gather; a loop."""
    groups = jax.lax.ragged_dot(x[:, :128], w, sizes)
    rows = groups[index]

    def step(carry, row):
        carry = jnp.tanh(carry * 0.5 + row)
        return carry, carry.max()

    return jax.lax.scan(step, table, rows)


@pytest.mark.tpu
@pytest.mark.slow
@pytest.mark.parametrize("target", ["tpu:v5e", "tpu:v6e"])
def test_honest_kernels_agree(tpu_worker: Worker, target: str):
    shapes = (
        jax.ShapeDtypeStruct((256, 256), jnp.bfloat16),
        jax.ShapeDtypeStruct((8, 128, 128), jnp.bfloat16),
        jax.ShapeDtypeStruct((8,), jnp.int32),
        jax.ShapeDtypeStruct((128,), jnp.bfloat16),
        jax.ShapeDtypeStruct((16,), jnp.int32),
    )
    program = api.lower(ragged, shapes, "tpu")(tpu_worker)
    kept_off = "xla_tpu_offload_gather_to_sparsecore", "xla_tpu_enable_offloading_gather_to_sparsecore"
    request = api.Request(target=target, options=dict.fromkeys(kept_off, "false") if target == "tpu:v6e" else {})
    settings = api.settings_for(request, {})
    with compiled(program, request, tpu_worker) as built:
        sets = list(api.inputs_for(program, request))
        handed = Handed(built.module, built.dump, target.removeprefix("tpu:"), settings.policy, lambda: sets)
        found = list(judge_kernels(built.module, built.dump, request, settings, handed=handed))
    assert {r.verdict for r in found} == {Verdict.AGREE}, [r for r in found if r.verdict is not Verdict.AGREE]
    assert any(r.computation != built.module.entry_name for r in found)
    assert any("hands it to" in r.inputs for r in found)
