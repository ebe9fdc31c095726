// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

namespace atalla::aten {

// Drops what is given to it on a thread of its own. The last reference to a tensor that Python knows is dropped under
// the interpreter's lock, and a stream's worker must not wait for that lock: who holds it may be waiting for room in
// the stream's queue.
void drop_elsewhere(std::shared_ptr<const void> owner);

// Owns `object`, which the last owner drops there, whichever thread that is.
template <class T>
std::shared_ptr<T> dropped_elsewhere(T* object) {
  return std::shared_ptr<T>(object, [](T* p) { drop_elsewhere(std::shared_ptr<T>(p)); });
}

}  // namespace atalla::aten
