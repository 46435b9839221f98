// Start indices outside are moved inside: -7 to 0, 9 to the last window.
module @gather {
  func.func public @main() {
    %0:2 = call @inputs() : () -> (tensor<5xi32>, tensor<3x1xi32>)
    %1 = call @expected() : () -> tensor<3x2xi32>
    %2 = "stablehlo.gather"(%0#0, %0#1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 2>}> : (tensor<5xi32>, tensor<3x1xi32>) -> tensor<3x2xi32>
    stablehlo.custom_call @check.expect_eq(%2, %1) {has_side_effect = true} : (tensor<3x2xi32>, tensor<3x2xi32>) -> ()
    return
  }
  func.func private @inputs() -> (tensor<5xi32>, tensor<3x1xi32>) {
    %a = stablehlo.constant dense<[10, 11, 12, 13, 14]> : tensor<5xi32>
    %i = stablehlo.constant dense<[[-7], [2], [9]]> : tensor<3x1xi32>
    return %a, %i : tensor<5xi32>, tensor<3x1xi32>
  }
  func.func private @expected() -> tensor<3x2xi32> {
    %c = stablehlo.constant dense<[[10, 11], [12, 13], [13, 14]]> : tensor<3x2xi32>
    return %c : tensor<3x2xi32>
  }
}
