// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <c10/core/StorageImpl.h>

namespace atalla::aten {

void register_hooks();

// Moves a storage to memory of another size; the common prefix is kept.
void resize_storage(c10::StorageImpl& storage, size_t bytes);

}  // namespace atalla::aten
