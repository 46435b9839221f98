// Ties go to the even neighbour: 1 + 2^-8 down, 1 + 3 * 2^-8 up; what is above the tie goes up.
module @convert {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<4xf32>
    %1 = call @expected() : () -> tensor<4xi16>
    %2 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xbf16>
    %3 = stablehlo.bitcast_convert %2 : (tensor<4xbf16>) -> tensor<4xi16>
    stablehlo.custom_call @check.expect_eq(%3, %1) {has_side_effect = true} : (tensor<4xi16>, tensor<4xi16>) -> ()
    return
  }
  func.func private @inputs() -> tensor<4xf32> {
    %c = stablehlo.constant dense<[1.00390625, 1.01171875, 1.00390637, -2.0]> : tensor<4xf32>
    return %c : tensor<4xf32>
  }
  func.func private @expected() -> tensor<4xi16> {
    %c = stablehlo.constant dense<[0x3F80, 0x3F82, 0x3F81, -16384]> : tensor<4xi16>
    return %c : tensor<4xi16>
  }
}
