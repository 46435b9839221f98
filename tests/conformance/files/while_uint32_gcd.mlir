// Euclid: the greatest common divisor of 1071 and 462.
module @gcd {
  func.func public @main() {
    %0:2 = call @inputs() : () -> (tensor<ui32>, tensor<ui32>)
    %1 = call @expected() : () -> tensor<ui32>
    %z = stablehlo.constant dense<0> : tensor<ui32>
    %2:2 = stablehlo.while(%a = %0#0, %b = %0#1) : tensor<ui32>, tensor<ui32>
    cond {
      %p = stablehlo.compare NE, %b, %z, UNSIGNED : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %r = stablehlo.remainder %a, %b : tensor<ui32>
      stablehlo.return %b, %r : tensor<ui32>, tensor<ui32>
    }
    stablehlo.custom_call @check.expect_eq(%2#0, %1) {has_side_effect = true} : (tensor<ui32>, tensor<ui32>) -> ()
    return
  }
  func.func private @inputs() -> (tensor<ui32>, tensor<ui32>) {
    %a = stablehlo.constant dense<1071> : tensor<ui32>
    %b = stablehlo.constant dense<462> : tensor<ui32>
    return %a, %b : tensor<ui32>, tensor<ui32>
  }
  func.func private @expected() -> tensor<ui32> {
    %c = stablehlo.constant dense<21> : tensor<ui32>
    return %c : tensor<ui32>
  }
}
