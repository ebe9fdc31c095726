# SPDX-License-Identifier: BSD-3-Clause
#
# Softmax of the rows of a matrix of bfloat16, in blocks of 32 rows.
#
#   x10  DRAM address of the matrix: rows x COLUMNS, contiguous
#   x11  DRAM address of the result, likewise
#   x12  number of blocks: rows / 32
#
# A row of 1,000 elements is 31 tiles of 32 columns and one of 8. A tile of 32 rows takes 512 cycles of the bus when it
# comes in and as many when it leaves; a row is computed in less than both. So the bus must never wait. Blocks pass
# through a pipeline of three stages: in stage b, block b comes in, block b - 1 is computed and block b - 2 leaves. A
# block has as many tiles as rows, so that the loop moves one tile in and one out for each row that it computes.
#
#   scratchpad 0: two blocks of numbers, block b at (b & 1) * BLOCK. Tile t is at t * TILE: row r of it at r * 64
#   scratchpad 1: two blocks of results, in the same places

.equ COLUMNS, 1000                          # 993 to 1,024, an even number
.equ TILES, (COLUMNS + 31) / 32
.equ LAST, COLUMNS - 32 * (TILES - 1)       # columns of the last tile
.equ TILE, 32 * 64
.equ BLOCK, 32 * TILE
.equ INFINITY, 0xFF800000 >> 7              # lui.s shifts it back: minus infinity in FP32
.equ SCPAD_ALLOC, -16
.equ REPORT_FAULT, -48

# x20 numbers in DRAM      x30 the row, in both scratchpads    x50 2048 (a tile)      x60 all tiles' shape
# x21 results in DRAM      x31 a group of 8 tiles of the row   x51 16384 (8 tiles)    x61 the last tile's shape
# x22 blocks               x32 group                           x52 65536 (a block)    x62 bit 30: scratchpad 1
# x23 stage                x33 1 / sum                         x53 131072 - 1         x63 shape of this tile
# x24 row, and tile        x41..x47 first rows of tiles 1..7   x54 from the last tile of a block to the next block
# x25 the tile, in both    x34 x31 of the results              x55..x57 1, 2, 3       x58 31      x59 65536 - 1
#                          x35 the block in the scratchpad     x70..x77 partial sums

start:
    add.s x20, x10, x0
    add.s x22, x12, x0
    lui.s x54, 64 * COLUMNS >> 7            # bytes of a block in DRAM
    sub.s x21, x11, x54
    sub.s x21, x21, x54                     # two blocks early, since results leave from stage 2 on
    # A program owns no scratchpad until the firmware gives it one. This one takes both as a whole.
    lui.s x10, 1 << 13                      # 1 MiB
    { jalr.s x1, x0, SCPAD_ALLOC; li.s x11, 0 }
    bne.s x10, x0, refused
    lui.s x10, 1 << 13
    { jalr.s x1, x0, SCPAD_ALLOC; li.s x11, 0 }
    beq.s x10, x0, constants
refused:
    li.s x10, 1                             # "scratchpad memory refused"
    jalr.s x0, x0, REPORT_FAULT

constants:
    li.s x50, TILE
    sub.s x54, x54, x50                     # less 64 bytes for each of 32 tiles
    li.s x51, 8 * TILE
    li.s x52, BLOCK
    li.s x53, 2 * BLOCK - 1
    li.s x55, 1
    li.s x56, 2
    li.s x57, 3
    li.s x58, 31
    li.s x59, BLOCK - 1
    lui.s x60, (31 << 25 | 31 << 20) >> 7              # 32 rows, 32 columns,
    addi.s x60, x60, COLUMNS - 1                       # from rows of so many elements
    lui.s x61, (31 << 25 | (LAST - 1) << 20) >> 7
    addi.s x61, x61, COLUMNS - 1
    lui.s x62, 1 << 23
    li.s x41, 1 * 32
    li.s x42, 2 * 32
    li.s x43, 3 * 32
    li.s x44, 4 * 32
    li.s x45, 5 * 32
    li.s x46, 6 * 32
    li.s x47, 7 * 32

# The array holds ones: gemm.vv then gives the sum of 32 lanes in every lane, added in FP32 to an earlier sum.
    lui.s x2, 0x3F800000 >> 7               # 1.0
    { add.vs v1, v0, x2; li.s x3, 1 }
ones:
    { blt.s x3, x58, ones, 1; lw.vi v1 }
    lw.vi v1

# A transfer writes only the columns that it moves. So minus infinity, written once behind the last columns, stays
# there, and no row needs a mask: it loses against any maximum, and its exponential is 0.
    lui.s x2, INFINITY
    { add.vs v1, v0, x2; li.s x3, 0 }
    li.s x4, (TILES - 1) * TILE
    add.s x5, x4, x52
padding:
    { vreg.st v1, x4, x3, 0, 32; vreg.st v1, x5, x3, 0, 32 }
    blt.s x3, x58, padding, 1

    li.s x23, 0
    li.s x25, 0
stage:
    li.s x24, 0
    add.s x63, x60, x0
    xor.s x30, x25, x52                     # transfers are in one block of each scratchpad, the row is in the other
tile:
    bne.s x24, x58, transfers
    add.s x63, x61, x0                      # the last tile is narrower
transfers:
    bge.s x23, x22, no_load                 # nothing comes in after the last block,
    scpad.ld x25, x20, x63
no_load:
    blt.s x23, x56, no_store                # nothing leaves in stages 0 and 1,
    or.s x2, x63, x62
    scpad.st x25, x21, x2
no_store:
    addi.s x20, x20, 64
    addi.s x21, x21, 64
    blt.s x23, x55, next                    # and nothing is computed in the first and the last stage.
    bgt.s x23, x22, next
    jal x1, softmax_row
next:
    add.s x25, x25, x50
    { blt.s x24, x58, tile, 1; addi.s x30, x30, 64 }
    and.s x25, x25, x53                     # behind the second block comes the first
    add.s x20, x20, x54
    add.s x21, x21, x54
    addi.s x2, x22, 1
    blt.s x23, x2, stage, 1                 # stages 0 to blocks + 1
    halt.s

# Softmax of the row at x30 of scratchpad 0, to x30 of scratchpad 1. A row has four groups of 8 vectors. The packet that
# reads a register last also loads it with the next group's: all slots read before any writes.
softmax_row:
# 1. The largest number. There is no maximum of two vectors: a comparison makes a mask, and an addition to v0 under that
#    mask copies the lanes that are greater. Eight maxima at once hide the latency of 5 cycles.
    { vreg.ld v8, x30, x0, 0, 32; vreg.ld v9, x30, x41, 0, 32 }
    { vreg.ld v10, x30, x42, 0, 32; vreg.ld v11, x30, x43, 0, 32 }
    { vreg.ld v12, x30, x44, 0, 32; vreg.ld v13, x30, x45, 0, 32 }
    { vreg.ld v14, x30, x46, 0, 32; vreg.ld v15, x30, x47, 0, 32 }
    add.s x31, x30, x51
    { vreg.ld v16, x31, x0, 0, 32; vreg.ld v17, x31, x41, 0, 32 }
    { vreg.ld v18, x31, x42, 0, 32; vreg.ld v19, x31, x43, 0, 32 }
    { vreg.ld v20, x31, x44, 0, 32; vreg.ld v21, x31, x45, 0, 32 }
    { vreg.ld v22, x31, x46, 0, 32; vreg.ld v23, x31, x47, 0, 32 }
    and.s x35, x30, x52                     # 0, or BLOCK in the second block
    li.s x32, 1
maxima:
    # x31 becomes the next group, behind the last one the first.
    { mgt.mvv m1, v16, v8; add.s x31, x31, x51 }
    { mgt.mvv m2, v17, v9; and.s x31, x31, x59 }
    { mgt.mvv m3, v18, v10; or.s x31, x31, x35 }
    mgt.mvv m4, v19, v11
    mgt.mvv m5, v20, v12
    mgt.mvv m6, v21, v13
    mgt.mvv m7, v22, v14
    mgt.mvv m8, v23, v15
    { add.vv v8, v16, v0, m1; vreg.ld v16, x31, x0, 0, 32 }
    { add.vv v9, v17, v0, m2; vreg.ld v17, x31, x41, 0, 32 }
    { add.vv v10, v18, v0, m3; vreg.ld v18, x31, x42, 0, 32 }
    { add.vv v11, v19, v0, m4; vreg.ld v19, x31, x43, 0, 32 }
    { add.vv v12, v20, v0, m5; vreg.ld v20, x31, x44, 0, 32 }
    { add.vv v13, v21, v0, m6; vreg.ld v21, x31, x45, 0, 32 }
    { add.vv v14, v22, v0, m7; vreg.ld v22, x31, x46, 0, 32 }
    { blt.s x32, x57, maxima, 1; add.vv v15, v23, v0, m8; vreg.ld v23, x31, x47, 0, 32 }
    mgt.mvv m1, v12, v8
    mgt.mvv m2, v13, v9
    mgt.mvv m3, v14, v10
    mgt.mvv m4, v15, v11
    add.vv v8, v12, v0, m1
    add.vv v9, v13, v0, m2
    add.vv v10, v14, v0, m3
    add.vv v11, v15, v0, m4
    mgt.mvv m1, v10, v8
    mgt.mvv m2, v11, v9
    add.vv v8, v10, v0, m1
    add.vv v9, v11, v0, m2
    mgt.mvv m1, v9, v8
    add.vv v8, v9, v0, m1
    rmax.vi v2, v8, 1 << 6                  # in all lanes

# 2. Exponentials, and their sum through the array. An addition of vectors would round each partial sum to bfloat16.
    { add.vv v8, v0, v0; li.s x32, 0 }
    add.vv v9, v0, v0
    add.vv v10, v0, v0
    add.vv v11, v0, v0
    add.vv v12, v0, v0
    add.vv v13, v0, v0
    add.vv v14, v0, v0
    add.vv v15, v0, v0
exponentials:
    { sub.vv v16, v16, v2; add.s x34, x31, x0 }
    { sub.vv v17, v17, v2; add.s x31, x31, x51 }
    { sub.vv v18, v18, v2; and.s x31, x31, x59 }
    { sub.vv v19, v19, v2; expi.vi v16, v16; or.s x31, x31, x35 }
    { sub.vv v20, v20, v2; expi.vi v17, v17 }
    { sub.vv v21, v21, v2; expi.vi v18, v18 }
    { sub.vv v22, v22, v2; expi.vi v19, v19 }
    { sub.vv v23, v23, v2; expi.vi v20, v20 }
    { expi.vi v21, v21; gemm.vv v8, v16, v8; vreg.st v16, x34, x0, 1, 32; vreg.ld v16, x31, x0, 0, 32 }
    { expi.vi v22, v22; gemm.vv v9, v17, v9; vreg.st v17, x34, x41, 1, 32; vreg.ld v17, x31, x41, 0, 32 }
    { expi.vi v23, v23; gemm.vv v10, v18, v10; vreg.st v18, x34, x42, 1, 32; vreg.ld v18, x31, x42, 0, 32 }
    { gemm.vv v11, v19, v11; vreg.st v19, x34, x43, 1, 32; vreg.ld v19, x31, x43, 0, 32 }
    { gemm.vv v12, v20, v12; vreg.st v20, x34, x44, 1, 32; vreg.ld v20, x31, x44, 0, 32 }
    { gemm.vv v13, v21, v13; vreg.st v21, x34, x45, 1, 32; vreg.ld v21, x31, x45, 0, 32 }
    { gemm.vv v14, v22, v14; vreg.st v22, x34, x46, 1, 32; vreg.ld v22, x31, x46, 0, 32 }
    { gemm.vv v15, v23, v15; vreg.st v23, x34, x47, 1, 32; vreg.ld v23, x31, x47, 0, 32 }
    blt.s x32, x57, exponentials, 1

# 3. Eight partial sums, one in each register, become 1 / sum on the scalar core, in FP32. Then the products.
    { vmov.vts x70, v8, 0; vreg.ld v24, x30, x0, 1, 32; vreg.ld v25, x30, x41, 1, 32 }
    { vmov.vts x71, v9, 0; vreg.ld v26, x30, x42, 1, 32; vreg.ld v27, x30, x43, 1, 32 }
    { vmov.vts x72, v10, 0; vreg.ld v28, x30, x44, 1, 32; vreg.ld v29, x30, x45, 1, 32 }
    { vmov.vts x73, v11, 0; vreg.ld v30, x30, x46, 1, 32; vreg.ld v31, x30, x47, 1, 32 }
    vmov.vts x74, v12, 0
    vmov.vts x75, v13, 0
    vmov.vts x76, v14, 0
    vmov.vts x77, v15, 0
    add.bf x70, x70, x74
    add.bf x71, x71, x75
    add.bf x72, x72, x76
    add.bf x73, x73, x77
    add.bf x70, x70, x72
    add.bf x71, x71, x73
    add.bf x70, x70, x71
    rcp.bf x33, x70
    li.s x32, 0
products:
    { mul.vs v24, v24, x33; add.s x34, x31, x0 }
    { mul.vs v25, v25, x33; add.s x31, x31, x51 }
    { mul.vs v26, v26, x33; and.s x31, x31, x59 }
    { mul.vs v27, v27, x33; or.s x31, x31, x35 }
    { mul.vs v28, v28, x33; vreg.st v24, x34, x0, 1, 32; vreg.ld v24, x31, x0, 1, 32 }
    { mul.vs v29, v29, x33; vreg.st v25, x34, x41, 1, 32; vreg.ld v25, x31, x41, 1, 32 }
    { mul.vs v30, v30, x33; vreg.st v26, x34, x42, 1, 32; vreg.ld v26, x31, x42, 1, 32 }
    { mul.vs v31, v31, x33; vreg.st v27, x34, x43, 1, 32; vreg.ld v27, x31, x43, 1, 32 }
    { vreg.st v28, x34, x44, 1, 32; vreg.ld v28, x31, x44, 1, 32 }
    { vreg.st v29, x34, x45, 1, 32; vreg.ld v29, x31, x45, 1, 32 }
    { vreg.st v30, x34, x46, 1, 32; vreg.ld v30, x31, x46, 1, 32 }
    { vreg.st v31, x34, x47, 1, 32; vreg.ld v31, x31, x47, 1, 32 }
    blt.s x32, x57, products, 1
    jalr.s x0, x1, 0
