// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace atalla::aten {

// Makes the device known to torch.profiler (kineto), and to torch.autograd.profiler(use_device="atalla").
void register_profiler();
void register_profiler_stubs();

}  // namespace atalla::aten
