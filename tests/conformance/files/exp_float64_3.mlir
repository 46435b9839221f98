// exp of 1, -1 and 10 to 17 digits.
module @exp {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<3xf64>
    %1 = call @expected() : () -> tensor<3xf64>
    %2 = stablehlo.exponential %0 : tensor<3xf64>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<3xf64>, tensor<3xf64>) -> ()
    return
  }
  func.func private @inputs() -> tensor<3xf64> {
    %c = stablehlo.constant dense<[1.0, -1.0, 10.0]> : tensor<3xf64>
    return %c : tensor<3xf64>
  }
  func.func private @expected() -> tensor<3xf64> {
    %c = stablehlo.constant dense<[2.7182818284590452, 0.36787944117144232, 22026.465794806717]> : tensor<3xf64>
    return %c : tensor<3xf64>
  }
}
