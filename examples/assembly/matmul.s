# SPDX-License-Identifier: BSD-3-Clause
#
# C = A B of SIZE x SIZE bfloat16 matrices, with sums in FP32.
#
#   x10, x11, x12  DRAM addresses of A, B and C, contiguous
#
# The array multiplies a row of A, whose lanes are k, with 32 columns of B, whose lanes are k too. The rows of B in DRAM
# have lanes n. So there are two phases:
#
#   1. B comes in, a block of 32 rows (8 tiles) at a time, and each tile is transposed. The array does that: the rows of
#      the tile become its columns, and the rows of the identity select one lane of each. B must be finite, since 0
#      times an infinity is NaN.
#   2. A comes in, a block of 32 rows at a time. Each tile of C is the sum of 8 products of 32 weights and 32 rows. The
#      sums stay in 32 vector registers, in FP32, and become bfloat16 once.
#
# A tile takes 512 cycles of the bus, and 3 x 64 tiles pass it once each. A product takes 64 cycles of the array; there
# are 512 products. So the transfers take longer, and the bus must never wait: the next block comes in while one is
# computed, and tiles of C leave while the next ones are computed.
#
#   scratchpad 0: B, tile (k, n) at (n * TILES + k) * TILE, so that phase 2 reads it from its first row to its last;
#                 from AT_A two blocks of A; the identity; a row of zeros
#   scratchpad 1: the 8 tiles of C of a block

.equ SIZE, 256                              # a power of two, 64 to 512
.equ TILES, SIZE / 32
.equ TILE, 32 * 64
.equ ROW, TILES * TILE                      # 8 tiles
.equ AT_A, TILES * ROW
.equ AT_IDENTITY, AT_A + 2 * ROW
.equ AT_ZERO, AT_IDENTITY + TILE
.equ SCPAD_ALLOC, -16
.equ REPORT_FAULT, -48

# x20 DRAM, next block to load    x30 rows of A               x50 shape of a tile to load     v0 zeros
# x21 next block of A             x31 weights, or rows of B   x51 shape of a tile to store    v32..v63 weights
# x22 C in DRAM                   x32 block                   x52 ROW     x53 TILE            v64..v95 rows of A
# x23 scratchpad, next tile       x33 tile of a block         x54 AT_A - 1                    v96..v127 sums
# x24 its distance to the next    x34 k                       x55 from 8 tiles to the next    v128..v159 the identity
# x25 tile of C in scratchpad 1   x35 block in scratchpad 0       block in DRAM               v160..v191 transposed rows
# x26 rows of C                                               x56 1   x57 7   x58 31          x59 AT_ZERO

start:
    add.s x20, x11, x0                      # B comes first
    add.s x21, x10, x0
    add.s x22, x12, x0
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
    lui.s x50, (31 << 25 | 31 << 20) >> 7   # 32 rows, 32 columns,
    addi.s x50, x50, SIZE - 1               # from rows of so many elements
    lui.s x51, 1 << 23                      # bit 30: scratchpad 1
    or.s x51, x51, x50
    li.s x52, ROW
    li.s x53, TILE
    li.s x54, AT_A - 1
    li.s x55, 31 * SIZE * 2
    li.s x56, 1
    li.s x57, TILES - 1
    li.s x58, 31
    li.s x59, AT_ZERO

# The first block of B. Its tiles have one k and all n.
    li.s x23, 0
    add.s x24, x52, x0
    jal x1, load_block

# The identity, row by row: 1.0 under a mask of one bit. It stays in v128 to v159. Meanwhile the first tile comes in.
    lui.s x2, 0x3F800000 >> 7               # 1.0
    li.s x3, 1
    li.s x4, 0
    li.s x5, AT_IDENTITY
    vreg.st v0, x59, x0, 0, 32
identity:
    { add.vv v1, v0, v0; mv.stm m1, x3 }
    { add.vs v1, v0, x2, m1; slli.s x3, x3, 1; lw.vi v0 }   # 32 pushes after a reset fill the array from column 0 on
    vreg.st v1, x5, x4, 0, 32
    blt.s x4, x58, identity, 1
    { vreg.ld v128, x5, x0, 0, 32; vreg.ld v129, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v130, x5, x0, 0, 32; vreg.ld v131, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v132, x5, x0, 0, 32; vreg.ld v133, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v134, x5, x0, 0, 32; vreg.ld v135, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v136, x5, x0, 0, 32; vreg.ld v137, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v138, x5, x0, 0, 32; vreg.ld v139, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v140, x5, x0, 0, 32; vreg.ld v141, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v142, x5, x0, 0, 32; vreg.ld v143, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v144, x5, x0, 0, 32; vreg.ld v145, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v146, x5, x0, 0, 32; vreg.ld v147, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v148, x5, x0, 0, 32; vreg.ld v149, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v150, x5, x0, 0, 32; vreg.ld v151, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v152, x5, x0, 0, 32; vreg.ld v153, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v154, x5, x0, 0, 32; vreg.ld v155, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v156, x5, x0, 0, 32; vreg.ld v157, x5, x56, 0, 32; addi.s x5, x5, 128 }
    { vreg.ld v158, x5, x0, 0, 32; vreg.ld v159, x5, x56, 0, 32; addi.s x5, x5, 128 }

# Phase 1. Each pass asks for the next block, then transposes the tiles of one, in place.
    li.s x32, 0
    li.s x35, 0
transpose_block:
    blt.s x32, x57, next_of_b
    add.s x20, x21, x0                      # behind B comes the first block of A, its tiles one after the other
    li.s x23, AT_A
    add.s x24, x53, x0
    jal x0, load_next
next_of_b:
    add.s x23, x35, x53
load_next:
    jal x1, load_block
    add.s x31, x35, x0
    li.s x33, 0
transpose_tile:
    addi.s x2, x31, 30 * 64                 # the column that is pushed first ends as column 31: the last row first
    { vreg.ld v32, x2, x56, 0, 32; vreg.ld v33, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v34, x2, x56, 0, 32; vreg.ld v35, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v36, x2, x56, 0, 32; vreg.ld v37, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v38, x2, x56, 0, 32; vreg.ld v39, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v40, x2, x56, 0, 32; vreg.ld v41, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v42, x2, x56, 0, 32; vreg.ld v43, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v44, x2, x56, 0, 32; vreg.ld v45, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v46, x2, x56, 0, 32; vreg.ld v47, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v48, x2, x56, 0, 32; vreg.ld v49, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v50, x2, x56, 0, 32; vreg.ld v51, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v52, x2, x56, 0, 32; vreg.ld v53, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v54, x2, x56, 0, 32; vreg.ld v55, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v56, x2, x56, 0, 32; vreg.ld v57, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v58, x2, x56, 0, 32; vreg.ld v59, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v60, x2, x56, 0, 32; vreg.ld v61, x2, x0, 0, 32; subi.s x2, x2, 128 }
    { vreg.ld v62, x2, x56, 0, 32; vreg.ld v63, x2, x0, 0, 32; subi.s x2, x2, 128 }
    lw.vi v32
    lw.vi v33
    lw.vi v34
    lw.vi v35
    lw.vi v36
    lw.vi v37
    lw.vi v38
    lw.vi v39
    lw.vi v40
    lw.vi v41
    lw.vi v42
    lw.vi v43
    lw.vi v44
    lw.vi v45
    lw.vi v46
    lw.vi v47
    lw.vi v48
    lw.vi v49
    lw.vi v50
    lw.vi v51
    lw.vi v52
    lw.vi v53
    lw.vi v54
    lw.vi v55
    lw.vi v56
    lw.vi v57
    lw.vi v58
    lw.vi v59
    lw.vi v60
    lw.vi v61
    lw.vi v62
    lw.vi v63
    { gemm.vv v160, v159, v0; add.s x2, x31, x0 }           # likewise: phase 2 pushes row 0 first, as column 31
    gemm.vv v161, v158, v0
    gemm.vv v162, v157, v0
    gemm.vv v163, v156, v0
    gemm.vv v164, v155, v0
    gemm.vv v165, v154, v0
    gemm.vv v166, v153, v0
    gemm.vv v167, v152, v0
    gemm.vv v168, v151, v0
    gemm.vv v169, v150, v0
    gemm.vv v170, v149, v0
    gemm.vv v171, v148, v0
    gemm.vv v172, v147, v0
    gemm.vv v173, v146, v0
    gemm.vv v174, v145, v0
    gemm.vv v175, v144, v0
    gemm.vv v176, v143, v0
    gemm.vv v177, v142, v0
    gemm.vv v178, v141, v0
    gemm.vv v179, v140, v0
    gemm.vv v180, v139, v0
    gemm.vv v181, v138, v0
    gemm.vv v182, v137, v0
    gemm.vv v183, v136, v0
    gemm.vv v184, v135, v0
    gemm.vv v185, v134, v0
    gemm.vv v186, v133, v0
    gemm.vv v187, v132, v0
    gemm.vv v188, v131, v0
    gemm.vv v189, v130, v0
    gemm.vv v190, v129, v0
    gemm.vv v191, v128, v0
    { vreg.st v160, x2, x0, 0, 32; vreg.st v161, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v162, x2, x0, 0, 32; vreg.st v163, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v164, x2, x0, 0, 32; vreg.st v165, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v166, x2, x0, 0, 32; vreg.st v167, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v168, x2, x0, 0, 32; vreg.st v169, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v170, x2, x0, 0, 32; vreg.st v171, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v172, x2, x0, 0, 32; vreg.st v173, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v174, x2, x0, 0, 32; vreg.st v175, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v176, x2, x0, 0, 32; vreg.st v177, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v178, x2, x0, 0, 32; vreg.st v179, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v180, x2, x0, 0, 32; vreg.st v181, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v182, x2, x0, 0, 32; vreg.st v183, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v184, x2, x0, 0, 32; vreg.st v185, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v186, x2, x0, 0, 32; vreg.st v187, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v188, x2, x0, 0, 32; vreg.st v189, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { vreg.st v190, x2, x0, 0, 32; vreg.st v191, x2, x56, 0, 32; addi.s x2, x2, 128 }
    { blt.s x33, x57, transpose_tile, 1; add.s x31, x31, x52 }
    { bge.s x32, x57, transposed, 1; add.s x35, x35, x53 }
    jal x0, transpose_block                 # farther than a branch can go
transposed:

# Phase 2. The first 32 weights; each product then loads those of the next one.
    li.s x31, 0
    { vreg.ld v32, x31, x0, 0, 32; vreg.ld v33, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v34, x31, x0, 0, 32; vreg.ld v35, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v36, x31, x0, 0, 32; vreg.ld v37, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v38, x31, x0, 0, 32; vreg.ld v39, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v40, x31, x0, 0, 32; vreg.ld v41, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v42, x31, x0, 0, 32; vreg.ld v43, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v44, x31, x0, 0, 32; vreg.ld v45, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v46, x31, x0, 0, 32; vreg.ld v47, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v48, x31, x0, 0, 32; vreg.ld v49, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v50, x31, x0, 0, 32; vreg.ld v51, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v52, x31, x0, 0, 32; vreg.ld v53, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v54, x31, x0, 0, 32; vreg.ld v55, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v56, x31, x0, 0, 32; vreg.ld v57, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v58, x31, x0, 0, 32; vreg.ld v59, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v60, x31, x0, 0, 32; vreg.ld v61, x31, x56, 0, 32; addi.s x31, x31, 128 }
    { vreg.ld v62, x31, x0, 0, 32; vreg.ld v63, x31, x56, 0, 32; addi.s x31, x31, 128 }
    li.s x32, 0
    li.s x35, AT_A
block:
    bge.s x32, x57, no_load                 # the last one
    xor.s x23, x35, x52                     # the other place for A
    jal x1, load_block
no_load:
    li.s x33, 0
    li.s x25, 0
tile:
    add.s x30, x35, x0
    li.s x34, 0
product:
# 32 weights enter the array, while the rows of A come from the scratchpad ...
    { lw.vi v32; vreg.ld v64, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v33; vreg.ld v65, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v34; vreg.ld v66, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v35; vreg.ld v67, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v36; vreg.ld v68, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v37; vreg.ld v69, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v38; vreg.ld v70, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v39; vreg.ld v71, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v40; vreg.ld v72, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v41; vreg.ld v73, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v42; vreg.ld v74, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v43; vreg.ld v75, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v44; vreg.ld v76, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v45; vreg.ld v77, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v46; vreg.ld v78, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v47; vreg.ld v79, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v48; vreg.ld v80, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v49; vreg.ld v81, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v50; vreg.ld v82, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v51; vreg.ld v83, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v52; vreg.ld v84, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v53; vreg.ld v85, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v54; vreg.ld v86, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v55; vreg.ld v87, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v56; vreg.ld v88, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v57; vreg.ld v89, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v58; vreg.ld v90, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v59; vreg.ld v91, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v60; vreg.ld v92, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v61; vreg.ld v93, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v62; vreg.ld v94, x30, x0, 0, 32; addi.s x30, x30, 64 }
    { lw.vi v63; vreg.ld v95, x30, x0, 0, 32; addi.s x30, x30, 64 }
# ... and 32 rows pass through it, while the next weights come. Behind the last tile of B comes its first. The sums of
# the first tile of C begin at 0, as all registers do.
    and.s x31, x31, x54
    { gemm.vv v96, v64, v96; vreg.ld v32, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v97, v65, v97; vreg.ld v33, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v98, v66, v98; vreg.ld v34, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v99, v67, v99; vreg.ld v35, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v100, v68, v100; vreg.ld v36, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v101, v69, v101; vreg.ld v37, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v102, v70, v102; vreg.ld v38, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v103, v71, v103; vreg.ld v39, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v104, v72, v104; vreg.ld v40, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v105, v73, v105; vreg.ld v41, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v106, v74, v106; vreg.ld v42, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v107, v75, v107; vreg.ld v43, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v108, v76, v108; vreg.ld v44, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v109, v77, v109; vreg.ld v45, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v110, v78, v110; vreg.ld v46, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v111, v79, v111; vreg.ld v47, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v112, v80, v112; vreg.ld v48, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v113, v81, v113; vreg.ld v49, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v114, v82, v114; vreg.ld v50, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v115, v83, v115; vreg.ld v51, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v116, v84, v116; vreg.ld v52, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v117, v85, v117; vreg.ld v53, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v118, v86, v118; vreg.ld v54, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v119, v87, v119; vreg.ld v55, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v120, v88, v120; vreg.ld v56, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v121, v89, v121; vreg.ld v57, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v122, v90, v122; vreg.ld v58, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v123, v91, v123; vreg.ld v59, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v124, v92, v124; vreg.ld v60, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v125, v93, v125; vreg.ld v61, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { gemm.vv v126, v94, v126; vreg.ld v62, x31, x0, 0, 32; addi.s x31, x31, 64 }
    { blt.s x34, x57, product, 1; gemm.vv v127, v95, v127; vreg.ld v63, x31, x0, 0, 32; addi.s x31, x31, 64 }
# The sums become bfloat16, to nearest even (scpad.st alone would truncate), go to the scratchpad, and begin again at 0.
    add.s x26, x25, x0
    add.vv v96, v96, v0
    add.vv v97, v97, v0
    add.vv v98, v98, v0
    { add.vv v99, v99, v0; vreg.st v96, x26, x0, 1, 32; vreg.ld v96, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v100, v100, v0; vreg.st v97, x26, x0, 1, 32; vreg.ld v97, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v101, v101, v0; vreg.st v98, x26, x0, 1, 32; vreg.ld v98, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v102, v102, v0; vreg.st v99, x26, x0, 1, 32; vreg.ld v99, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v103, v103, v0; vreg.st v100, x26, x0, 1, 32; vreg.ld v100, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v104, v104, v0; vreg.st v101, x26, x0, 1, 32; vreg.ld v101, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v105, v105, v0; vreg.st v102, x26, x0, 1, 32; vreg.ld v102, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v106, v106, v0; vreg.st v103, x26, x0, 1, 32; vreg.ld v103, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v107, v107, v0; vreg.st v104, x26, x0, 1, 32; vreg.ld v104, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v108, v108, v0; vreg.st v105, x26, x0, 1, 32; vreg.ld v105, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v109, v109, v0; vreg.st v106, x26, x0, 1, 32; vreg.ld v106, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v110, v110, v0; vreg.st v107, x26, x0, 1, 32; vreg.ld v107, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v111, v111, v0; vreg.st v108, x26, x0, 1, 32; vreg.ld v108, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v112, v112, v0; vreg.st v109, x26, x0, 1, 32; vreg.ld v109, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v113, v113, v0; vreg.st v110, x26, x0, 1, 32; vreg.ld v110, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v114, v114, v0; vreg.st v111, x26, x0, 1, 32; vreg.ld v111, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v115, v115, v0; vreg.st v112, x26, x0, 1, 32; vreg.ld v112, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v116, v116, v0; vreg.st v113, x26, x0, 1, 32; vreg.ld v113, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v117, v117, v0; vreg.st v114, x26, x0, 1, 32; vreg.ld v114, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v118, v118, v0; vreg.st v115, x26, x0, 1, 32; vreg.ld v115, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v119, v119, v0; vreg.st v116, x26, x0, 1, 32; vreg.ld v116, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v120, v120, v0; vreg.st v117, x26, x0, 1, 32; vreg.ld v117, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v121, v121, v0; vreg.st v118, x26, x0, 1, 32; vreg.ld v118, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v122, v122, v0; vreg.st v119, x26, x0, 1, 32; vreg.ld v119, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v123, v123, v0; vreg.st v120, x26, x0, 1, 32; vreg.ld v120, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v124, v124, v0; vreg.st v121, x26, x0, 1, 32; vreg.ld v121, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v125, v125, v0; vreg.st v122, x26, x0, 1, 32; vreg.ld v122, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v126, v126, v0; vreg.st v123, x26, x0, 1, 32; vreg.ld v123, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { add.vv v127, v127, v0; vreg.st v124, x26, x0, 1, 32; vreg.ld v124, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { vreg.st v125, x26, x0, 1, 32; vreg.ld v125, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { vreg.st v126, x26, x0, 1, 32; vreg.ld v126, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { vreg.st v127, x26, x0, 1, 32; vreg.ld v127, x59, x0, 0, 32; addi.s x26, x26, 64 }
    { scpad.st x25, x22, x51; addi.s x22, x22, 64 }
    { bge.s x33, x57, block_done, 1; add.s x25, x25, x53 }
    jal x0, tile
block_done:
    add.s x22, x22, x55
    { bge.s x32, x57, done, 1; xor.s x35, x35, x52 }
    jal x0, block
done:
    halt.s

# Asks for 8 tiles from x20 in DRAM, to x23 in scratchpad 0 and on at a distance of x24. x20 goes to the next 32 rows.
load_block:
    li.s x2, 0
load_tile:
    { scpad.ld x23, x20, x50; addi.s x20, x20, 64 }
    { blt.s x2, x57, load_tile, 1; add.s x23, x23, x24 }
    add.s x20, x20, x55
    jalr.s x0, x1, 0
