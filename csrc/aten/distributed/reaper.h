// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>

namespace atalla::aten {

// For an object that is given up when the process ends, after that thread has stopped. Objects that threads of Gloo
// give up are kept: the interpreter may have ended, and ends a thread that asks for its lock.
enum class AtEnd { kDrop, kKeep };

// Drops what is given to it on a thread of its own. The last reference to a tensor that Python knows is dropped under
// the interpreter's lock, and a stream's worker must not wait for that lock: a thread that holds it may be waiting for
// room in the stream's queue.
void drop_elsewhere(std::shared_ptr<const void> owner, AtEnd at_end);

// Owns `object`, which the last owner drops there, whichever thread that is.
template <class T>
std::shared_ptr<T> dropped_elsewhere(T* object, AtEnd at_end) {
  return std::shared_ptr<T>(object, [at_end](T* p) { drop_elsewhere(std::shared_ptr<T>(p), at_end); });
}

}  // namespace atalla::aten
