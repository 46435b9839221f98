// The exponent of exp(x), read off its bits: undecided by radii, since they hold more than one number, and decided by runs.
module @bits {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<3xf32>
    %1 = call @expected() : () -> tensor<3xi32>
    %2 = stablehlo.exponential %0 : tensor<3xf32>
    %3 = stablehlo.bitcast_convert %2 : (tensor<3xf32>) -> tensor<3xi32>
    %n = stablehlo.constant dense<23> : tensor<3xi32>
    %4 = stablehlo.shift_right_logical %3, %n : tensor<3xi32>
    %b = stablehlo.constant dense<127> : tensor<3xi32>
    %5 = stablehlo.compare GT, %4, %b : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %z = stablehlo.constant dense<0> : tensor<3xi32>
    %6 = stablehlo.subtract %4, %b : tensor<3xi32>
    %7 = stablehlo.select %5, %6, %z : tensor<3xi1>, tensor<3xi32>
    stablehlo.custom_call @check.expect_eq(%7, %1) {has_side_effect = true} : (tensor<3xi32>, tensor<3xi32>) -> ()
    return
  }
  func.func private @inputs() -> tensor<3xf32> {
    %c = stablehlo.constant dense<[1.0, 3.0, -5.0]> : tensor<3xf32>
    return %c : tensor<3xf32>
  }
  func.func private @expected() -> tensor<3xi32> {
    %c = stablehlo.constant dense<[1, 4, 0]> : tensor<3xi32>
    return %c : tensor<3xi32>
  }
}
