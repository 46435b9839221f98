"""What instructions take of a bundle, by libtpu's own count; and what a dump is said to consist of."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from assay.checking.api import Request
from assay.kernels import opened
from assay.llo.files import read_dump
from assay.llo.stats import issued, stats
from assay.llo.text import parse

_spec = importlib.util.spec_from_file_location("dumped", Path(__file__).with_name("dumped.py"))
assert _spec is not None
assert _spec.loader is not None
dumped = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(dumped)

# Bundles of libtpu 0.0.52 for v5e, and the slots that the dump's own utilization table gives them.
KNOWN = [
    ("%v14_v3 = vsub.f32 %v10_v1, %v9_v0  ;;  %825 = vrcp.f32 %v11_v2", {"VALU": 2, "EUP": 1}),
    ("%v1_v0 = vld [vmem:[%s1_s0] sm:$0xff]  ;;  %vm2_vm0 = vmand %vm3_vm1, %vm4_vm2", {"V-load": 2}),
    ("%4 = vsyncpa [#allocation1], 0  ;;  %s904_s11 = smov.u32 128", {"V-load": 1, "scalar": 1}),
    ("%v826_v28 = vpop.erf %825  ;;  %39 = vst [vmem:[%s1_s0] sm:$0xff] /*vst_source=*/%v37_v15",
     {"V-pop": 1, "V-store": 1}),
    ("%s1_s0 = inlined_call_operand.vmem [shape: f32[8], index: 0, kind: input, shape index: {}]", {}),
    ("%12 = dma.done.wait [#allocation3], 16  ;;  %9 = sbr.rel (%p20_p0) target = $region2",
     {"V-load": 1, "scalar": 1}),
    ("%7 = vrot.lane.b32.xlu0 %v1_v0, 1  ;;  %8 = vmatpush.msra.mxu1 %v2_v1", {"XLU": 1, "MXU": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "slots"), KNOWN)
def test_slots_are_those_that_libtpu_counts(text, slots):
    (bundle,) = parse(f"     0   :  {{ {text} }} /* Start region 2 */\n", "b.txt").bundles
    assert dict(issued(bundle)) == slots


def test_a_kernel_in_numbers(tmp_path):
    dump = read_dump(dumped.write(tmp_path, dumped.planted("66-final_bundles", "vsub.f32", "vmystery.f32")))
    found = stats(dump.kernels["k"])
    assert [(s.label, s.instructions, s.parts) for s in found.stages if s.label in ("original", "final_bundles")] == [
        ("original", 7, 1),
        ("final_bundles", 7, 5),
    ]
    assert (found.bundles, found.empty) == (5, 2)  # the one that names operands issues nothing either
    assert {name: count for name, count in found.slots.items() if count} == {"V-load": 2, "V-store": 1, "VALU": 1}
    assert found.full["V-load"] == 1
    assert found.opcodes == {"inlined_call_operand": 3, "vld": 2, "vmystery.f32": 1, "vst": 1}
    assert found.unmodelled == {"spseudo.reserve": ("44 post-grt",), "vmystery.f32": ("66 final_bundles",)}
    assert found.hindered == ["vmystery.f32"]
    assert "not a line of LLO" in next(s.why for s in found.stages if s.number == 42) or found.stages[3].why


UTILIZATION = {"VALU": "VALU", "VPOP": "V-pop", "VLOAD": "V-load", "VSTORE": "V-store", "SALU": "scalar"}


@pytest.mark.tpu
@pytest.mark.slow
def test_every_bundle_of_real_kernels_has_the_slots_that_libtpu_counts(tmp_path, tpu_toolchain):
    toolchain = None if tpu_toolchain.spec == "host" else tpu_toolchain.spec
    (tmp_path / "f.py").write_text(
        "import jax, jax.numpy as jnp\n\n\ndef f(x, y):\n    return jax.nn.softmax(x @ y) * jnp.tanh(x.sum())\n\n\n"
        "def example_args():\n    return jnp.ones((100, 200)), jnp.ones((200, 130))\n"
    )
    checked = 0
    with opened(f"{tmp_path / 'f.py'}:f", Request(target="tpu:v5e", toolchain=toolchain)) as (_, dumps):
        (one,) = dumps
        assert not one.problem, one.problem
        for files in one.dump.kernels.values():
            final = files.stage("final").path
            stem = final.name.rsplit("-", 2)[0]
            (table,) = final.parent.glob(f"{stem}-*-final_hlo-static-per-bundle-utilization.txt")
            lines = table.read_text().splitlines()
            names = re.split(r",\s*", lines[1].strip().rstrip(":"))
            rows = [dict(zip(names, map(int, line.split()), strict=True)) for line in lines[4:] if line.strip()]
            for row, bundle in zip(rows, parse(final.read_text(), final.name).bundles, strict=True):
                mine = issued(bundle)
                assert {name: row[name] for name in UTILIZATION} == {k: mine[v] for k, v in UTILIZATION.items()}, bundle
                checked += 1
    assert checked > 100
