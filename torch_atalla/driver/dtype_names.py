# SPDX-License-Identifier: BSD-3-Clause
"""Names of the chip's dtypes, for code that runs without torch."""

# torch's name -> as listings write it, which in capitals is the name of the code in atalla.h.
SHORT_NAMES = {
    "uint8": "u8",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
    "bool": "bool",
    "bfloat16": "bf16",
}
