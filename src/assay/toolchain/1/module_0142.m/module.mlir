#loc1 = loc("p")
module @m attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<2xf64> loc("p")) -> tensor<2xf64> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<2xf64> loc(#loc2)
    return %0 : tensor<2xf64> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("r")
