// SPDX-License-Identifier: BSD-3-Clause
//
// Processing elements side by side: one row of a group of columns. They share the operation and the lane of a cycle.
module element_group
  import atalla_float::*;
#(
    parameter int GROUP = 4
) (
    input logic clk,
    input logic reset,
    input operation_t operation,
    input logic [15:0] lane,
    input logic [7:0] first_column,
    input logic [15:0] carry_in,  // what a shift moves into the first column
    output logic [15:0] carry_out,
    input logic [GROUP-1:0][31:0] partial_in,
    output logic [GROUP-1:0][31:0] partial
);
  /* verilator no_inline_module */
  logic [GROUP-1:0][15:0] weight;

  always_ff @(posedge clk) begin
    if (operation.row) begin
      for (int n = 0; n < GROUP; n++) partial[n] <= add_fp32(partial_in[n], multiply_bf16(lane, weight[n]));
    end
    for (int n = 0; n < GROUP; n++) begin
      if (operation.fill && operation.column == first_column + 8'(n)) weight[n] <= lane;
    end
    if (operation.shift) begin
      weight <= (GROUP * 16)'({weight, carry_in});
      carry_out <= weight[GROUP-1];
    end
    if (reset) weight <= '0;
  end
endmodule
