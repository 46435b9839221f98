// Products of int8 accumulated in int32: 127 * 127 * 3 does not fit the operands' type.
module @dot {
  func.func public @main() {
    %0:2 = call @inputs() : () -> (tensor<2x3xi8>, tensor<3x2xi8>)
    %1 = call @expected() : () -> tensor<2x2xi32>
    %2 = stablehlo.dot_general %0#0, %0#1, contracting_dims = [1] x [0] : (tensor<2x3xi8>, tensor<3x2xi8>) -> tensor<2x2xi32>
    stablehlo.custom_call @check.expect_eq(%2, %1) {has_side_effect = true} : (tensor<2x2xi32>, tensor<2x2xi32>) -> ()
    return
  }
  func.func private @inputs() -> (tensor<2x3xi8>, tensor<3x2xi8>) {
    %a = stablehlo.constant dense<[[127, 127, 127], [1, -2, 3]]> : tensor<2x3xi8>
    %b = stablehlo.constant dense<[[127, 4], [127, 5], [127, -6]]> : tensor<3x2xi8>
    return %a, %b : tensor<2x3xi8>, tensor<3x2xi8>
  }
  func.func private @expected() -> tensor<2x2xi32> {
    %c = stablehlo.constant dense<[[48387, 381], [254, -24]]> : tensor<2x2xi32>
    return %c : tensor<2x2xi32>
  }
}
