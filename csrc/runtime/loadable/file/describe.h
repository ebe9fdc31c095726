// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

// Everything in a validated loadable but the weights' bytes, as one JSON object:
//   {"format": [1, 0], "min_runtime": [1, 0], "isa_version": 0, "file_bytes": n, "sections": [...], "metadata": {...},
//    "kernels": [...], "storages": [...], "values": [...], "instructions": [...], "host_calls": [...], "inputs": [...],
//    "outputs": [...], "nodes": [...], "segments": [...], "methods": [...]}
// Arrays are in the order of the records, so that indices in one are positions in another; NONE is null; ranges are
// [first, count]; dtypes, kinds and spaces are names. Operands stand inside their instruction. Floating-point numbers
// that JSON cannot write are the strings "nan", "inf" and "-inf".
std::string describe_json(const View& view);

}  // namespace atalla::runtime::loadable
