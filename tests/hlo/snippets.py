"""One small valid module for each opcode, which jaxlib's parser takes (test_snippets.py checks that it does).

The instruction under test is the ROOT of ENTRY.
"""

from __future__ import annotations

PRELUDE = """HloModule snippet

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}

%add2 (a0: f32[], a1: s32[], b0: f32[], b1: s32[]) -> (f32[], s32[]) {
  %a0 = f32[] parameter(0)
  %a1 = s32[] parameter(1)
  %b0 = f32[] parameter(2)
  %b1 = s32[] parameter(3)
  %sum0 = f32[] add(%a0, %b0)
  %sum1 = s32[] add(%a1, %b1)
  ROOT %both = (f32[], s32[]) tuple(%sum0, %sum1)
}

%less (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

%less_by_key (a: f32[], b: f32[], c: s32[], d: s32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  %c = s32[] parameter(2)
  %d = s32[] parameter(3)
  ROOT %lt = pred[] compare(%a, %b), direction=LT
}

%minus (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %minus.x = f32[4]{0} negate(%x)
}

%plain (x: f32[4]) -> f32[4] {
  ROOT %x = f32[4]{0} parameter(0)
}

%again (state: (s32[], f32[4])) -> pred[] {
  %state = (s32[], f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %n = s32[] constant(3)
  ROOT %go = pred[] compare(%i, %n), direction=LT
}

%step (state: (s32[], f32[4])) -> (s32[], f32[4]) {
  %state = (s32[], f32[4]{0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %v = f32[4]{0} get-tuple-element(%state), index=1
  %w = f32[4]{0} negate(%v)
  ROOT %result = (s32[], f32[4]{0}) tuple(%next, %w)
}

%both_ways (x: f32[4]) -> f32[2] {
  %x = f32[4]{0} parameter(0)
  %y = f32[4]{0} negate(%x)
  ROOT %part = f32[2]{0} slice(%y), slice={[0:2]}
}

"""

_UNARY_FLOAT = (
    "abs", "acos", "acosh", "asin", "asinh", "atanh", "cbrt", "ceil", "cosine", "cosh", "erf", "exponential",
    "exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "negate", "round-nearest-afz",
    "round-nearest-even", "rsqrt", "sign", "sine", "sinh", "sqrt", "tan", "tanh", "copy", "opt-barrier",
)  # fmt: skip
_UNARY_INTEGER = ("not", "popcnt", "count-leading-zeros")
_BINARY_FLOAT = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "power", "atan2")
_BINARY_INTEGER = ("and", "or", "xor", "mulhi", "shift-left", "shift-right-arithmetic", "shift-right-logical")

# opcode -> the lines of ENTRY, parameters written as NAME: SHAPE on the first line
BODIES: dict[str, str] = {
    **{op: f"x: f32[4,8]{{1,0}}\nROOT %r = f32[4,8]{{1,0}} {op}(%x)" for op in _UNARY_FLOAT},
    **{op: f"x: s32[4,8]{{1,0}}\nROOT %r = s32[4,8]{{1,0}} {op}(%x)" for op in _UNARY_INTEGER},
    **{op: f"x: f32[4,8]{{1,0}}, y: f32[4,8]{{1,0}}\nROOT %r = f32[4,8]{{1,0}} {op}(%x, %y)" for op in _BINARY_FLOAT},
    **{op: f"x: s32[4,8]{{1,0}}, y: s32[4,8]{{1,0}}\nROOT %r = s32[4,8]{{1,0}} {op}(%x, %y)" for op in _BINARY_INTEGER},
    "is-finite": "x: f32[4]{0}\nROOT %r = pred[4]{0} is-finite(%x)",
    "real": "x: c64[4]{0}\nROOT %r = f32[4]{0} real(%x)",
    "imag": "x: c64[4]{0}\nROOT %r = f32[4]{0} imag(%x)",
    "complex": "x: f32[4]{0}, y: f32[4]{0}\nROOT %r = c64[4]{0} complex(%x, %y)",
    "compare": "x: f32[4]{0}, y: f32[4]{0}\nROOT %r = pred[4]{0} compare(%x, %y), direction=LT, type=TOTALORDER",
    "clamp": "x: f32[], y: f32[4]{0}, z: f32[]\nROOT %r = f32[4]{0} clamp(%x, %y, %z)",
    "select": "x: pred[4]{0}, y: f32[4]{0}, z: f32[4]{0}\nROOT %r = f32[4]{0} select(%x, %y, %z)",
    "convert": "x: f32[4]{0}\nROOT %r = bf16[4]{0} convert(%x)",
    "bitcast-convert": "x: f32[4]{0}\nROOT %r = u8[4,4]{1,0} bitcast-convert(%x)",
    "reduce-precision": "x: f32[4]{0}\nROOT %r = f32[4]{0} reduce-precision(%x), exponent_bits=5, mantissa_bits=10",
    "stochastic-convert": "x: f32[4]{0}, y: u32[4]{0}\nROOT %r = s8[4]{0} stochastic-convert(%x, %y)",
    "map": "x: f32[4]{0}, y: f32[4]{0}\nROOT %r = f32[4]{0} map(%x, %y), dimensions={0}, to_apply=%add",
    "bitcast": "x: f32[4,8]{1,0}\nROOT %r = f32[32]{0} bitcast(%x)",
    "broadcast": "x: f32[4]{0}\nROOT %r = f32[3,4,5]{2,1,0} broadcast(%x), dimensions={1}",
    "reshape": "x: f32[4,8]{1,0}\nROOT %r = f32[2,16]{1,0} reshape(%x)",
    "dynamic-reshape": "x: f32[4,8]{1,0}, y: s32[], z: s32[]\nROOT %r = f32[<=2,16]{1,0} dynamic-reshape(%x, %y, %z)",
    "transpose": "x: f32[4,8]{1,0}\nROOT %r = f32[8,4]{1,0} transpose(%x), dimensions={1,0}",
    "reverse": "x: f32[4,8]{1,0}\nROOT %r = f32[4,8]{1,0} reverse(%x), dimensions={1}",
    "slice": "x: f32[4,8]{1,0}\nROOT %r = f32[2,3]{1,0} slice(%x), slice={[1:3], [0:7:3]}",
    "pad": "x: f32[4,8]{1,0}, y: f32[]\nROOT %r = f32[7,15]{1,0} pad(%x, %y), padding=1_2x0_0_1",
    "concatenate": "x: f32[4,8]{1,0}, y: f32[4,3]{1,0}\nROOT %r = f32[4,11]{1,0} concatenate(%x, %y), dimensions={1}",
    "dynamic-slice": "x: f32[4,8]{1,0}, y: s32[], z: s32[]\n"
    "ROOT %r = f32[2,8]{1,0} dynamic-slice(%x, %y, %z), dynamic_slice_sizes={2,8}",
    "dynamic-update-slice": "x: f32[4,8]{1,0}, u: f32[2,8]{1,0}, y: s32[], z: s32[]\n"
    "ROOT %r = f32[4,8]{1,0} dynamic-update-slice(%x, %u, %y, %z)",
    "gather": "x: f32[16,8]{1,0}, i: s32[5,1]{1,0}\n"
    "ROOT %r = f32[5,8]{1,0} gather(%x, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes={1,8}",
    "scatter": "x: f32[16,8]{1,0}, i: s32[5,1]{1,0}, u: f32[5,8]{1,0}\n"
    "ROOT %r = f32[16,8]{1,0} scatter(%x, %i, %u), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%add",
    "iota": "\nROOT %r = s32[4,8]{1,0} iota(), iota_dimension=1",
    "get-dimension-size": "x: f32[<=4,8]{1,0}\nROOT %r = s32[] get-dimension-size(%x), dimensions={0}",
    "set-dimension-size": "x: f32[4,8]{1,0}, n: s32[]\n"
    "ROOT %r = f32[<=4,8]{1,0} set-dimension-size(%x, %n), dimensions={0}",
    "copy-start": "x: f32[4]{0}\nROOT %r = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%x)",
    "copy-done": "x: f32[4]{0}\n%s = (f32[4]{0}, f32[4]{0}, u32[]) copy-start(%x)\nROOT %r = f32[4]{0} copy-done(%s)",
    "dot": "x: f32[2,4,8]{2,1,0}, y: f32[2,8,5]{2,1,0}\n"
    "ROOT %r = f32[2,4,5]{2,1,0} dot(%x, %y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
    "rhs_contracting_dims={1}, operand_precision={highest,default}",
    "ragged-dot": "x: f32[16,8]{1,0}, y: f32[3,8,5]{2,1,0}, g: s32[3]{0}\n"
    "ROOT %r = f32[16,5]{1,0} ragged-dot(%x, %y, %g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "lhs_ragged_dims={0}, rhs_group_dims={0}",
    "scaled-dot": "x: f8e4m3fn[4,64]{1,0}, y: f8e4m3fn[64,8]{1,0}, s: f8e8m0fnu[4,2]{1,0}, t: f8e8m0fnu[2,8]{1,0}\n"
    "ROOT %r = bf16[4,8]{1,0} scaled-dot(%x, %y, %s, %t), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "convolution": "x: f32[2,9,9,4]{3,2,1,0}, y: f32[3,3,2,6]{3,2,1,0}\n"
    "ROOT %r = f32[2,4,5,6]{3,2,1,0} convolution(%x, %y), window={size=3x3 stride=2x2 pad=0_0x1_1}, "
    "dim_labels=b01f_01io->b01f, feature_group_count=2",
    "reduce": "x: f32[4,8]{1,0}, y: f32[]\nROOT %r = f32[4]{0} reduce(%x, %y), dimensions={1}, to_apply=%add",
    "reduce-window": "x: f32[4,8]{1,0}, y: f32[]\n"
    "ROOT %r = f32[2,8]{1,0} reduce-window(%x, %y), window={size=2x3 stride=2x1 pad=0_0x1_1}, to_apply=%add",
    "select-and-scatter": "x: f32[4,8]{1,0}, s: f32[2,8]{1,0}, y: f32[]\n"
    "ROOT %r = f32[4,8]{1,0} select-and-scatter(%x, %s, %y), window={size=2x1 stride=2x1}, select=%less, scatter=%add",
    "sort": "x: f32[4,8]{1,0}, y: s32[4,8]{1,0}\n"
    "ROOT %r = (f32[4,8]{1,0}, s32[4,8]{1,0}) sort(%x, %y), dimensions={1}, is_stable=true, to_apply=%less_by_key",
    "topk": "x: f32[4,8]{1,0}\nROOT %r = (f32[4,3]{1,0}, s32[4,3]{1,0}) topk(%x), k=3, largest=true",
    "fft": "x: f32[4,8]{1,0}\nROOT %r = c64[4,5]{1,0} fft(%x), fft_type=RFFT, fft_length={8}",
    "cholesky": "x: f32[3,4,4]{2,1,0}\nROOT %r = f32[3,4,4]{2,1,0} cholesky(%x), lower=true",
    "triangular-solve": "a: f32[4,4]{1,0}, x: f32[4,6]{1,0}\n"
    "ROOT %r = f32[4,6]{1,0} triangular-solve(%a, %x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE",
    "batch-norm-training": "x: f32[4,8]{1,0}, s: f32[8]{0}, o: f32[8]{0}\n"
    "ROOT %r = (f32[4,8]{1,0}, f32[8]{0}, f32[8]{0}) batch-norm-training(%x, %s, %o), epsilon=0.001, feature_index=1",
    "batch-norm-inference": "x: f32[4,8]{1,0}, s: f32[8]{0}, o: f32[8]{0}, m: f32[8]{0}, v: f32[8]{0}\n"
    "ROOT %r = f32[4,8]{1,0} batch-norm-inference(%x, %s, %o, %m, %v), epsilon=0.001, feature_index=1",
    "batch-norm-grad": "x: f32[4,8]{1,0}, s: f32[8]{0}, m: f32[8]{0}, v: f32[8]{0}, g: f32[4,8]{1,0}\n"
    "ROOT %r = (f32[4,8]{1,0}, f32[8]{0}, f32[8]{0}) batch-norm-grad(%x, %s, %m, %v, %g), epsilon=0.001, "
    "feature_index=1",
    "rng": "x: f32[], y: f32[]\nROOT %r = f32[4,8]{1,0} rng(%x, %y), distribution=rng_uniform",
    "rng-bit-generator": "x: u64[2]{0}\nROOT %r = (u64[2]{0}, u32[4,8]{1,0}) rng-bit-generator(%x), "
    "algorithm=rng_three_fry",
    "rng-get-and-update-state": "\nROOT %r = u64[2]{0} rng-get-and-update-state(), delta=4096",
    "parameter": "\nROOT %r = f32[4,8]{1,0} parameter(0)",
    "constant": "\nROOT %r = f32[2,2]{1,0} constant({ { 1, -inf }, { nan, 0.1 } })",
    "tuple": "x: f32[4]{0}, y: s32[]\nROOT %r = (f32[4]{0}, s32[]) tuple(%x, %y)",
    "get-tuple-element": "x: (f32[4]{0}, s32[])\nROOT %r = f32[4]{0} get-tuple-element(%x), index=0",
    "call": "x: f32[4]{0}\nROOT %r = f32[4]{0} call(%x), to_apply=%minus",
    "fusion": "x: f32[4]{0}\nROOT %r = f32[4]{0} fusion(%x), kind=kLoop, calls=%minus",
    "while": "x: (s32[], f32[4]{0})\nROOT %r = (s32[], f32[4]{0}) while(%x), condition=%again, body=%step",
    "conditional": "i: s32[], x: f32[4]{0}\n"
    "ROOT %r = f32[4]{0} conditional(%i, %x, %x), branch_computations={%minus, %plain}",
    "custom-call": "x: f32[4]{0}\n"
    'ROOT %r = f32[4]{0} custom-call(%x), custom_call_target="a\\"b", custom_call_has_side_effect=true, '
    'operand_layout_constraints={f32[4]{0}}, literal=f32[2]{0} {1, 2}, backend_config="{\\"k\\": [1]}"',
    "after-all": "x: token[]\nROOT %r = token[] after-all(%x)",
    "add-dependency": "x: f32[4]{0}, t: token[]\nROOT %r = f32[4]{0} add-dependency(%x, %t)",
    "infeed": 't: token[]\nROOT %r = ((f32[4]{0}), token[]) infeed(%t), infeed_config="q"',
    "outfeed": "x: f32[4]{0}, t: token[]\nROOT %r = token[] outfeed(%x, %t), outfeed_shape=f32[4]{0}",
    "send": "x: f32[4]{0}, t: token[]\n"
    "ROOT %r = (f32[4]{0}, u32[], token[]) send(%x, %t), channel_id=1, is_host_transfer=true",
    "send-done": "x: f32[4]{0}, t: token[]\n%s = (f32[4]{0}, u32[], token[]) send(%x, %t), channel_id=1\n"
    "ROOT %r = token[] send-done(%s), channel_id=1",
    "recv": "t: token[]\nROOT %r = (f32[4]{0}, u32[], token[]) recv(%t), channel_id=1",
    "recv-done": "t: token[]\n%s = (f32[4]{0}, u32[], token[]) recv(%t), channel_id=1\n"
    "ROOT %r = (f32[4]{0}, token[]) recv-done(%s), channel_id=1",
    "async-start": "x: f32[4]{0}\nROOT %r = ((f32[4]{0}), f32[2]{0}, u32[]) async-start(%x), calls=%both_ways",
    "async-update": "x: f32[4]{0}\n%s = ((f32[4]{0}), f32[2]{0}, u32[]) async-start(%x), calls=%both_ways\n"
    "ROOT %r = ((f32[4]{0}), f32[2]{0}, u32[]) async-update(%s)",
    "async-done": "x: f32[4]{0}\n%s = ((f32[4]{0}), f32[2]{0}, u32[]) async-start(%x), calls=%both_ways\n"
    "ROOT %r = f32[2]{0} async-done(%s)",
    "all-gather": "x: f32[4,8]{1,0}\n"
    "ROOT %r = f32[4,16]{1,0} all-gather(%x), channel_id=1, replica_groups=[2,2]<=[4], dimensions={1}, "
    "use_global_device_ids=true",
    "all-gather-start": "x: f32[4,8]{1,0}\n"
    "ROOT %r = (f32[4,8]{1,0}, f32[4,16]{1,0}) all-gather-start(%x), replica_groups={{0,1},{2,3}}, dimensions={1}",
    "all-gather-done": "x: f32[4,8]{1,0}\n"
    "%s = (f32[4,8]{1,0}, f32[4,16]{1,0}) all-gather-start(%x), replica_groups={{0,1},{2,3}}, dimensions={1}\n"
    "ROOT %r = f32[4,16]{1,0} all-gather-done(%s)",
    "all-reduce": "x: f32[4]{0}\nROOT %r = f32[4]{0} all-reduce(%x), replica_groups={{0,1}}, to_apply=%add",
    "all-reduce-start": "x: f32[4]{0}\nROOT %r = f32[4]{0} all-reduce-start(%x), replica_groups={}, to_apply=%add",
    "all-reduce-done": "x: f32[4]{0}\n%s = f32[4]{0} all-reduce-start(%x), replica_groups={}, to_apply=%add\n"
    "ROOT %r = f32[4]{0} all-reduce-done(%s)",
    "reduce-scatter": "x: f32[4,8]{1,0}\n"
    "ROOT %r = f32[4,2]{1,0} reduce-scatter(%x), replica_groups={{0,1,2,3}}, dimensions={1}, to_apply=%add",
    "all-to-all": "x: f32[4,8]{1,0}\nROOT %r = f32[4,8]{1,0} all-to-all(%x), replica_groups={{0,1}}, dimensions={1}",
    "ragged-all-to-all": "x: f32[8]{0}, y: f32[8]{0}, a: s32[2]{0}, b: s32[2]{0}, c: s32[2]{0}, d: s32[2]{0}\n"
    "ROOT %r = f32[8]{0} ragged-all-to-all(%x, %y, %a, %b, %c, %d), replica_groups={{0,1}}",
    "collective-permute": "x: f32[4]{0}\nROOT %r = f32[4]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}",
    "collective-permute-start": "x: f32[4]{0}\n"
    "ROOT %r = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(%x), source_target_pairs={{0,1},{1,0}}",
    "collective-permute-done": "x: f32[4]{0}\n"
    "%s = (f32[4]{0}, f32[4]{0}, u32[], u32[]) collective-permute-start(%x), source_target_pairs={{0,1},{1,0}}\n"
    "ROOT %r = f32[4]{0} collective-permute-done(%s)",
    "collective-broadcast": "x: f32[4]{0}\nROOT %r = f32[4]{0} collective-broadcast(%x), replica_groups={{0,1}}",
    "partition-id": "\nROOT %r = u32[] partition-id()",
    "replica-id": "\nROOT %r = u32[] replica-id()",
    "domain": 'x: f32[4]{0}\nROOT %r = f32[4]{0} domain(%x), domain={kind="sharding", entry={maximal device=0}, '
    "exit={maximal device=1}}",
}

# More forms of the same opcodes.
VARIANTS: dict[str, str] = {
    "reduce of two": "x: f32[4,8]{1,0}, y: s32[4,8]{1,0}, a: f32[], b: s32[]\n"
    "ROOT %r = (f32[4]{0}, s32[4]{0}) reduce(%x, %y, %a, %b), dimensions={1}, to_apply=%add2",
    "conditional on pred": "p: pred[], x: f32[4]{0}\n"
    "ROOT %r = f32[4]{0} conditional(%p, %x, %x), true_computation=%minus, false_computation=%plain",
    "gather with batching": "x: f32[3,16,8]{2,1,0}, i: s32[3,5,1]{2,1,0}\n"
    "ROOT %r = f32[3,5,8]{2,1,0} gather(%x, %i), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
    "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,8}, "
    "indices_are_sorted=true",
    "scatter with batching": "x: f32[3,16,8]{2,1,0}, i: s32[3,5,1]{2,1,0}, u: f32[3,5,8]{2,1,0}\n"
    "ROOT %r = f32[3,16,8]{2,1,0} scatter(%x, %i, %u), update_window_dims={2}, inserted_window_dims={1}, "
    "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, "
    "index_vector_dim=2, unique_indices=true, to_apply=%add",
    "convolution backwards": "x: f32[2,4,5,6]{3,2,1,0}, y: f32[3,3,4,6]{3,2,1,0}\n"
    "ROOT %r = f32[2,9,9,4]{3,2,1,0} convolution(%x, %y), window={size=3x3 pad=2_2x1_1 lhs_dilate=2x2 "
    "rhs_reversal=1x1}, dim_labels=b01f_01oi->b01f",
    "convolution in batch groups": "x: f32[4,9]{1,0}, y: f32[9,8]{1,0}\n"
    "ROOT %r = f32[2,8]{1,0} convolution(%x, %y), dim_labels=bf_io->bf, batch_group_count=2",
    "quoted, escaped metadata": "x: f32[4]{0}\n"
    'ROOT %r = f32[4]{0} negate(%x), metadata={op_type="a" op_name="jit(f)/{x, \\"y\\"}[1]" source_file="a b.py" '
    "source_line=12}",
    "sharding of a mesh": "x: f32[4,8]{1,0}\nROOT %r = f32[4,8]{1,0} negate(%x), "
    "sharding={devices=[2,1,4]<=[2,4]T(1,0) last_tile_dim_replicate}",
    "sharding of a tuple": "x: f32[4]{0}, y: f32[]\nROOT %r = (f32[4]{0}, f32[]) tuple(%x, %y), "
    "sharding={{devices=[2]0,1}, {replicated}}",
    "origin and statistics": "x: f32[4]{0}\n"
    'ROOT %r = f32[4]{0} negate(%x), statistics={visualizing_index=1,stat-1=33,stat-2=44}, origin={{"v1" {0}}}',
    "frontend attributes": 'x: f32[4]{0}\nROOT %r = f32[4]{0} negate(%x), frontend_attributes={a="1",b={c = #d<[]>}}',
    "result accuracy": "x: f32[4]{0}\nROOT %r = f32[4]{0} exponential(%x), result_accuracy={mode=highest}",
    "dot algorithm": "x: f32[4,8]{1,0}, y: f32[8,5]{1,0}\n"
    "ROOT %r = f32[4,5]{1,0} dot(%x, %y), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "algorithm=dot_bf16_bf16_f32",
    "tiled layouts": "x: bf16[32,256]{1,0:T(8,128)(2,1)S(1)}\nROOT %r = bf16[32,256]{1,0:T(8,128)(2,1)} copy(%x)",
    "slice in the background": "x: f32[4]{0}\n"
    "%s = ((f32[4]{0}), f32[2]{0}, u32[]) slice-start(%x), slice={[0:2]}\n"
    "%u = ((f32[4]{0}), f32[2]{0}, u32[]) slice-update(%s)\nROOT %r = f32[2]{0} slice-done(%u)",
    "custom-call in the background": "x: f32[4]{0}\n"
    '%s = ((f32[4]{0}), f32[2]{0}, u32[]) custom-call-start(%x), async_execution_thread="q", '
    'custom_call_target="t", metadata={op_name="n"}, backend_config={"a":[1,{"b":"}"}]}\n'
    "ROOT %r = f32[2]{0} custom-call-done(%s)",
    "control predecessors": "x: f32[4]{0}\n%a = f32[4]{0} negate(%x)\n%b = f32[4]{0} abs(%x), "
    "control-predecessors={%a}\nROOT %r = f32[4]{0} add(%a, %b), control-predecessors={%a, %b}",
    "literal of a tuple": "\nROOT %r = (f32[], (s32[2]{0}, pred[])) constant(( 1, ( {1, 2}, true ) ))",
    "literal of rank three": "\n"
    "ROOT %r = s32[2,1,2]{2,1,0} constant({ { /*i0=0*/ { 1, 2 } }, { /*i0=1*/ { 3, -4 } } })",
    "complex literal": "\nROOT %r = c64[2]{0} constant({(1, 2), (-0.5, inf)})",
    "ragged contraction": "x: f32[4,16]{1,0}, y: f32[16,5]{1,0}, g: s32[3]{0}\n"
    "ROOT %r = f32[3,4,5]{2,1,0} ragged-dot(%x, %y, %g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
    "lhs_ragged_dims={1}",
    "old single index": "x: f32[4,8]{1,0}, i: s32[2]{0}\n"
    "ROOT %r = f32[2,8]{1,0} dynamic-slice(%x, %i), dynamic_slice_sizes={2,8}",
    "six operands": "x: f32[1]{0}\nROOT %r = f32[6]{0} concatenate(%x, %x, %x, %x, %x, /*index=5*/%x), dimensions={0}",
    "buffer": "x: b(f32[4]{0})\nROOT %r = (b(f32[4]{0})) tuple(%x)",
    "unbounded": "x: f32[?,4]{1,0}\nROOT %r = f32[?,4]{1,0} negate(%x)",
}


def module_of(body: str) -> str:
    """The whole text of a module whose ENTRY has this body."""
    header, *lines = body.split("\n")
    parameters = []
    depth = start = 0
    for i, character in enumerate(header + ","):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parameters.append(header[start:i].strip())
            start = i + 1
    named = [p.split(": ", 1) for p in parameters if p]
    entry = [f"  %{name} = {shape} parameter({i})" for i, (name, shape) in enumerate(named)]
    entry += [f"  {line}" for line in lines]
    return PRELUDE + "ENTRY %main {\n" + "\n".join(entry) + "\n}\n"
