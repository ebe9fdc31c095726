// SPDX-License-Identifier: BSD-3-Clause
//
// A weight-stationary systolic array: lw.vi and gemm.vv of the ISA engine (docs/concepts/isa-engine.md).
//
//   push  a column of weights: column 0, 1, ... until all are filled; then all columns move right by one, and it enters
//         at column 0
//   row   results[n] = bf16(sum over k, upward, of bf16(lanes[k]) * weights[k][n]) + sums[n]
//
// One of them can be issued in every cycle, in any order. They pass through the array as one wavefront, so that a row
// meets exactly the weights of the pushes before it. Processing element (k, n) works on an operation k + n / GROUP
// cycles after it has left the input register.
//
// A row that is issued in cycle t may be used in cycle t + 1 + ROWS + (COLUMNS / GROUP - 1) + ADD_STAGES: the input
// register, the rows of elements, the registers between groups of columns, the adder at the bottom. The ISA sheet gives
// 45 cycles for 32 x 32, but no structure. Groups of 4 columns, and the 5 cycles of the chip's vector addition, add up
// to it: 1 + 32 + 7 + 5. Multiplication and addition of an element take one cycle here, and the addition at the bottom
// is computed in the first of its stages; a synthesis would have to move registers into both.
module systolic_tile
  import atalla_float::*;
#(
    parameter int ROWS = 32,
    parameter int COLUMNS = 32,  // at most 255
    parameter int GROUP = 4,  // divides COLUMNS
    parameter int ADD_STAGES = 5
) (
    input logic clk,
    input logic reset,
    input logic push,
    input logic row,  // not together with push
    input logic [ROWS-1:0][31:0] lanes,
    input logic [COLUMNS-1:0][31:0] sums,
    output logic valid,
    output logic [COLUMNS-1:0][31:0] results
);
  localparam int GROUPS = COLUMNS / GROUP;
  localparam int DEPTH = ROWS + GROUPS;  // register stages in front of the adder at the bottom

  // Operations on their way. Stage 0 is the input register.
  operation_t operation[DEPTH];
  logic [ROWS-1:0][15:0] data[DEPTH];
  logic [COLUMNS-1:0][31:0] addend[DEPTH];
  logic [7:0] filled;

  always_ff @(posedge clk) begin
    for (int s = 1; s < DEPTH; s++) begin
      operation[s] <= operation[s-1];
      data[s] <= data[s-1];
      addend[s] <= addend[s-1];
    end
    operation[0].row <= row;
    operation[0].fill <= push && filled != 8'(COLUMNS);
    operation[0].shift <= push && filled == 8'(COLUMNS);
    operation[0].column <= filled;
    if (push && filled != 8'(COLUMNS)) filled <= filled + 1;
    for (int k = 0; k < ROWS; k++) data[0][k] <= round_bf16(lanes[k]);
    addend[0] <= sums;
    if (reset) begin
      filled <= 0;
      for (int s = 0; s < DEPTH; s++) operation[s] <= '0;
    end
  end

  // The elements.
  logic [COLUMNS-1:0][31:0] partial[ROWS+1];  // partial[k]: what row k adds to
  logic [15:0] carry[ROWS][GROUPS+1];
  assign partial[0] = '0;

  for (genvar k = 0; k < ROWS; k++) begin : elements
    assign carry[k][0] = data[k][k];
    for (genvar g = 0; g < GROUPS; g++) begin : groups
      element_group #(
          .GROUP(GROUP)
      ) group (
          .clk,
          .reset,
          .operation(operation[k+g]),
          .lane(data[k+g][k]),
          .first_column(8'(g * GROUP)),
          .carry_in(carry[k][g]),
          .carry_out(carry[k][g+1]),
          .partial_in(partial[k][g*GROUP+:GROUP]),
          .partial(partial[k+1][g*GROUP+:GROUP])
      );
    end
  end

  // The bottom: groups that were early wait for the last one. The addition is computed in the first of its stages.
  logic [COLUMNS-1:0][31:0] early[GROUPS];  // early[d]: the sums of d cycles ago
  logic [COLUMNS-1:0][31:0] total;
  logic [COLUMNS-1:0][31:0] sum[ADD_STAGES];
  logic [ADD_STAGES-1:0] done;
  assign early[0] = partial[ROWS];

  always_comb begin
    for (int n = 0; n < COLUMNS; n++) begin
      total[n] = add_fp32({round_bf16(early[GROUPS-1-n/GROUP][n]), 16'b0}, addend[DEPTH-1][n]);
    end
  end

  always_ff @(posedge clk) begin
    for (int d = 1; d < GROUPS; d++) early[d] <= early[d-1];
    if (operation[DEPTH-1].row) sum[0] <= total;
    done[0] <= operation[DEPTH-1].row && !reset;
    for (int s = 1; s < ADD_STAGES; s++) begin
      sum[s] <= sum[s-1];
      done[s] <= done[s-1] && !reset;
    end
  end

  assign valid = done[ADD_STAGES-1];
  assign results = sum[ADD_STAGES-1];
endmodule
