// log 4!, log of the square root of pi, log Gamma(-1/2), and a pole.
module @lgamma {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<4xf32>
    %1 = call @expected() : () -> tensor<4xf32>
    %2 = chlo.lgamma %0 : tensor<4xf32> -> tensor<4xf32>
    stablehlo.custom_call @check.expect_almost_eq(%2, %1) {has_side_effect = true} : (tensor<4xf32>, tensor<4xf32>) -> ()
    return
  }
  func.func private @inputs() -> tensor<4xf32> {
    %c = stablehlo.constant dense<[5.0, 0.5, -0.5, 0.0]> : tensor<4xf32>
    return %c : tensor<4xf32>
  }
  func.func private @expected() -> tensor<4xf32> {
    %c = stablehlo.constant dense<[3.178054, 0.572365, 1.265512, 0x7F800000]> : tensor<4xf32>
    return %c : tensor<4xf32>
  }
}
