// A stable sort with an infinity and two equal keys; where the keys went is told by what went with them. Two results, two checks.
module @sort {
  func.func public @main() {
    %0:2 = call @inputs() : () -> (tensor<5xf32>, tensor<5xi32>)
    %1:2 = call @expected() : () -> (tensor<5xf32>, tensor<5xi32>)
    %2:2 = "stablehlo.sort"(%0#0, %0#1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %s = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %s : tensor<i1>
    }) : (tensor<5xf32>, tensor<5xi32>) -> (tensor<5xf32>, tensor<5xi32>)
    stablehlo.custom_call @check.expect_close(%2#0, %1#0) {has_side_effect = true} : (tensor<5xf32>, tensor<5xf32>) -> ()
    stablehlo.custom_call @check.expect_eq(%2#1, %1#1) {has_side_effect = true} : (tensor<5xi32>, tensor<5xi32>) -> ()
    return
  }
  func.func private @inputs() -> (tensor<5xf32>, tensor<5xi32>) {
    %a = stablehlo.constant dense<[3.0, 0x7F800000, -1.0, 3.0, 2.0]> : tensor<5xf32>
    %b = stablehlo.constant dense<[0, 1, 2, 3, 4]> : tensor<5xi32>
    return %a, %b : tensor<5xf32>, tensor<5xi32>
  }
  func.func private @expected() -> (tensor<5xf32>, tensor<5xi32>) {
    %a = stablehlo.constant dense<[-1.0, 2.0, 3.0, 3.0, 0x7F800000]> : tensor<5xf32>
    %b = stablehlo.constant dense<[2, 4, 0, 3, 1]> : tensor<5xi32>
    return %a, %b : tensor<5xf32>, tensor<5xi32>
  }
}
