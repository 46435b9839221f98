// The square roots of 2i, -4 and 3 - 4i.
module @sqrt {
  func.func public @main() {
    %0 = call @inputs() : () -> tensor<3xcomplex<f32>>
    %1 = call @expected() : () -> tensor<3xcomplex<f32>>
    %2 = stablehlo.sqrt %0 : tensor<3xcomplex<f32>>
    stablehlo.custom_call @check.expect_close(%2, %1) {has_side_effect = true} : (tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) -> ()
    return
  }
  func.func private @inputs() -> tensor<3xcomplex<f32>> {
    %c = stablehlo.constant dense<[(0.0, 2.0), (-4.0, 0.0), (3.0, -4.0)]> : tensor<3xcomplex<f32>>
    return %c : tensor<3xcomplex<f32>>
  }
  func.func private @expected() -> tensor<3xcomplex<f32>> {
    %c = stablehlo.constant dense<[(1.0, 1.0), (0.0, 2.0), (2.0, -1.0)]> : tensor<3xcomplex<f32>>
    return %c : tensor<3xcomplex<f32>>
  }
}
