// Two updates of one place add up modulo 256; one that lies outside is dropped.
module @scatter {
  func.func public @main() {
    %0:3 = call @inputs() : () -> (tensor<4xui8>, tensor<3x1xi32>, tensor<3xui8>)
    %1 = call @expected() : () -> tensor<4xui8>
    %2 = "stablehlo.scatter"(%0#0, %0#1, %0#2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<ui8>, %b: tensor<ui8>):
      %s = stablehlo.add %a, %b : tensor<ui8>
      stablehlo.return %s : tensor<ui8>
    }) : (tensor<4xui8>, tensor<3x1xi32>, tensor<3xui8>) -> tensor<4xui8>
    stablehlo.custom_call @check.expect_eq(%2, %1) {has_side_effect = true} : (tensor<4xui8>, tensor<4xui8>) -> ()
    return
  }
  func.func private @inputs() -> (tensor<4xui8>, tensor<3x1xi32>, tensor<3xui8>) {
    %a = stablehlo.constant dense<[1, 2, 3, 4]> : tensor<4xui8>
    %i = stablehlo.constant dense<[[2], [4], [2]]> : tensor<3x1xi32>
    %u = stablehlo.constant dense<[200, 9, 60]> : tensor<3xui8>
    return %a, %i, %u : tensor<4xui8>, tensor<3x1xi32>, tensor<3xui8>
  }
  func.func private @expected() -> tensor<4xui8> {
    %c = stablehlo.constant dense<[1, 2, 7, 4]> : tensor<4xui8>
    return %c : tensor<4xui8>
  }
}
