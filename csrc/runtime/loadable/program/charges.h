// SPDX-License-Identifier: BSD-3-Clause
//
// The clock of launches that have code: a run of the code tells the cycles of each, so that both engines take the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/loadable/file/view.h"

namespace atalla::runtime::loadable {

// The contents of memory that a run of code begins with.
struct CodeContents {
  std::span<const std::byte> constants;
  const std::map<uint32_t, std::vector<std::byte>>* initial;  // of mutable buffers, by state; others are zeros
};

// Runs the method's code once in a machine of its own, on the inputs of its first golden, or on zeros and ones. Gives a
// number of charge_create for each instruction of the method, for the sizes of the view: what its calls take until the
// next one's begin. Empty if the code does not say which calls are an instruction's (files before 1.5), if the chip
// does not run it, or if on these inputs it stops with a fault, or has not ended after so many packets.
std::vector<uint32_t> charges_of_code(const View& view, const Code& code, Device& device, const CodeContents& contents,
                                      uint64_t packets);

}  // namespace atalla::runtime::loadable
