// SPDX-License-Identifier: BSD-3-Clause
//
// BF16 and FP32 arithmetic of the systolic tile: IEEE 754 with subnormals, rounded to nearest even. Every NaN that
// results is the canonical one, as the ISA engine stores it (docs/concepts/isa-engine.md).
package atalla_float;

  localparam logic [31:0] NAN = 32'h7FC0_0000;
  localparam logic [31:0] INFINITY = 32'h7F80_0000;

  // The nearest BF16 of an FP32.
  function automatic logic [15:0] round_bf16(input logic [31:0] x);
    /* verilator no_inline_task */
    if (x[30:0] > INFINITY[30:0]) return NAN[31:16];
    return x[31:16] + {15'b0, x[15] & (x[16] | (|x[14:0]))};
  endfunction

  // x >> by, where the lowest bit collects everything that is shifted out.
  function automatic logic [26:0] shift_right_sticky(input logic [26:0] x, input logic [9:0] by);
    logic [26:0] lost;
    if (by > 26) return {26'b0, |x};
    lost = x & ~(27'h7FF_FFFF << by[4:0]);
    return (x >> by[4:0]) | {26'b0, |lost};
  endfunction

  // FP32 of significand * 2^(exponent - 127 - 26), rounded once. The significand is not 0. Its lowest bit may be sticky,
  // in which case its leading bit must be bit 26 or 25.
  function automatic logic [31:0] normalise_and_round(input logic sign, input logic signed [9:0] exponent,
                                                      input logic [26:0] significand);
    logic signed [9:0] e;
    logic [26:0] m;
    logic [23:0] kept;
    logic [30:0] magnitude;
    e = exponent;
    m = significand;
    if (m[26:11] == 0) begin m = m << 16; e = e - 16; end
    if (m[26:19] == 0) begin m = m << 8; e = e - 8; end
    if (m[26:23] == 0) begin m = m << 4; e = e - 4; end
    if (m[26:25] == 0) begin m = m << 2; e = e - 2; end
    if (!m[26]) begin m = m << 1; e = e - 1; end
    if (e >= 255) return {sign, INFINITY[30:0]};
    if (e < 1) begin  // subnormal: the exponent field is 0, and counts as 1
      m = shift_right_sticky(m, 10'sd1 - e);
      e = 1;
    end
    kept = m[26:3];
    // The leading bit of `kept` adds 1 to the exponent field; so does a carry out of the rounding.
    magnitude = {e[7:0] - 8'd1, 23'b0} + {7'b0, kept} + {30'b0, m[2] & (m[3] | m[1] | m[0])};
    return {sign, magnitude};
  endfunction

  // a * b as FP32. A product of two BF16 has 16 bits, so only very large and very small ones are rounded.
  function automatic logic [31:0] multiply_bf16(input logic [15:0] a, input logic [15:0] b);
    /* verilator no_inline_task */
    logic sign;
    logic [15:0] product;
    logic signed [9:0] exponent;
    sign = a[15] ^ b[15];
    if (a[14:0] > 15'h7F80 || b[14:0] > 15'h7F80) return NAN;
    if (a[14:0] == 15'h7F80 || b[14:0] == 15'h7F80) begin
      return a[14:0] == 0 || b[14:0] == 0 ? NAN : {sign, INFINITY[30:0]};
    end
    product = {8'b0, |a[14:7], a[6:0]} * {8'b0, |b[14:7], b[6:0]};
    if (product == 0) return {sign, 31'b0};
    exponent = {2'b0, a[14:7]} + {2'b0, b[14:7]} + {9'b0, a[14:7] == 0} + {9'b0, b[14:7] == 0} - 10'd126;
    return normalise_and_round(sign, exponent, {product, 11'b0});
  endfunction

  // a + b
  function automatic logic [31:0] add_fp32(input logic [31:0] a, input logic [31:0] b);
    /* verilator no_inline_task */
    logic [31:0] greater;
    logic [30:0] lesser;
    logic [7:0] greater_exponent, lesser_exponent;
    logic [26:0] aligned;
    logic [27:0] sum;
    if (a[30:0] > INFINITY[30:0] || b[30:0] > INFINITY[30:0]) return NAN;
    {greater, lesser} = a[30:0] >= b[30:0] ? {a, b[30:0]} : {b, a[30:0]};
    if (greater[30:0] == INFINITY[30:0]) begin
      return lesser == INFINITY[30:0] && a[31] != b[31] ? NAN : greater;
    end
    greater_exponent = greater[30:23] | {7'b0, greater[30:23] == 0};
    lesser_exponent = lesser[30:23] | {7'b0, lesser[30:23] == 0};
    aligned = shift_right_sticky({|lesser[30:23], lesser[22:0], 3'b0}, {2'b0, greater_exponent - lesser_exponent});
    sum = {1'b0, |greater[30:23], greater[22:0], 3'b0};
    sum = a[31] == b[31] ? sum + {1'b0, aligned} : sum - {1'b0, aligned};
    if (sum == 0) return {a[31] & b[31], 31'b0};
    if (sum[27]) begin
      return normalise_and_round(greater[31], {2'b0, greater_exponent} + 10'd1, {sum[27:2], sum[1] | sum[0]});
    end
    return normalise_and_round(greater[31], {2'b0, greater_exponent}, sum[26:0]);
  endfunction

  // An operation on its way through the array.
  typedef struct packed {
    logic row;
    logic fill;  // a push that fills one column
    logic shift;  // a push that moves all columns
    logic [7:0] column;  // that a fill writes
  } operation_t;

endpackage
