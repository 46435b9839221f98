// asinh(0.75) = log 2; asinh(i / 2) = i pi / 6.
module @asinh {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<2xcomplex<f64>>
    %1 = call @expected() : () -> tensor<2xcomplex<f64>>
    %2 = chlo.asinh %0 : tensor<2xcomplex<f64>> -> tensor<2xcomplex<f64>>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>) -> ()
    return
  }
  func.func private @inputs() -> tensor<2xcomplex<f64>> {
    %c = stablehlo.constant dense<[(0.75, 0.0), (0.0, 0.5)]> : tensor<2xcomplex<f64>>
    return %c : tensor<2xcomplex<f64>>
  }
  func.func private @expected() -> tensor<2xcomplex<f64>> {
    %c = stablehlo.constant dense<[(0.69314718055994531, 0.0), (0.0, 0.52359877559829887)]> : tensor<2xcomplex<f64>>
    return %c : tensor<2xcomplex<f64>>
  }
}
