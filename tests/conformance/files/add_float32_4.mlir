// Each sum is exact in f32.
module @add {
  func.func public @main() {
    %0:2 = call @inputs() : () -> (tensor<4xf32>, tensor<4xf32>)
    %1 = call @expected() : () -> tensor<4xf32>
    %2 = stablehlo.add %0#0, %0#1 : tensor<4xf32>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<4xf32>, tensor<4xf32>) -> ()
    return
  }
  func.func private @inputs() -> (tensor<4xf32>, tensor<4xf32>) {
    %a = stablehlo.constant dense<[1.5, -2.25, 1.0e30, 0x7F800000]> : tensor<4xf32>
    %b = stablehlo.constant dense<[0.25, 2.25, -1.0e30, 1.0]> : tensor<4xf32>
    return %a, %b : tensor<4xf32>, tensor<4xf32>
  }
  func.func private @expected() -> tensor<4xf32> {
    %c = stablehlo.constant dense<[1.75, 0.0, 0.0, 0x7F800000]> : tensor<4xf32>
    return %c : tensor<4xf32>
  }
}
