// Windows of 2 taken 2 apart over 1 2 3 4 with one 0 on each side: 0+2, 1+3, 2+4, 3+0.
module @window {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<4xi32>
    %1 = call @expected() : () -> tensor<4xi32>
    %z = stablehlo.constant dense<0> : tensor<i32>
    %2 = "stablehlo.reduce_window"(%0, %z) <{window_dimensions = array<i64: 2>, window_dilations = array<i64: 2>, padding = dense<[[1, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %s = stablehlo.add %a, %b : tensor<i32>
      stablehlo.return %s : tensor<i32>
    }) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
    stablehlo.custom_call @check.expect_eq(%2, %1) {has_side_effect = true} : (tensor<4xi32>, tensor<4xi32>) -> ()
    return
  }
  func.func private @inputs() -> tensor<4xi32> {
    %c = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
    return %c : tensor<4xi32>
  }
  func.func private @expected() -> tensor<4xi32> {
    %c = stablehlo.constant dense<[2, 4, 6, 3]> : tensor<4xi32>
    return %c : tensor<4xi32>
  }
}
