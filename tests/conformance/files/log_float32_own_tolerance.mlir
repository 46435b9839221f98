// The call states how far it may be off: 100 ulps, and 0.01 in the second.
module @log {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<2xf32>
    %1:2 = call @expected() : () -> (tensor<2xf32>, tensor<2xf32>)
    %2 = stablehlo.log %0 : tensor<2xf32>
    stablehlo.custom_call @check.expect_close(%2, %1#0) {has_side_effect = true, max_ulp_difference = 100 : i64, min_ulp_difference = 1 : i64} : (tensor<2xf32>, tensor<2xf32>) -> ()
    stablehlo.custom_call @check.expect_almost_eq(%2, %1#1) {has_side_effect = true, tolerance = 1.000000e-02 : f64} : (tensor<2xf32>, tensor<2xf32>) -> ()
    return
  }
  func.func private @inputs() -> tensor<2xf32> {
    %c = stablehlo.constant dense<[2.0, 10.0]> : tensor<2xf32>
    return %c : tensor<2xf32>
  }
  func.func private @expected() -> (tensor<2xf32>, tensor<2xf32>) {
    %a = stablehlo.constant dense<[0.693150, 2.302580]> : tensor<2xf32>
    %b = stablehlo.constant dense<[0.70, 2.31]> : tensor<2xf32>
    return %a, %b : tensor<2xf32>, tensor<2xf32>
  }
}
