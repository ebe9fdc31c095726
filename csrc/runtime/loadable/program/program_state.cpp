// SPDX-License-Identifier: BSD-3-Clause
//
// What a program keeps from run to run: mutable buffers, and parameters that a caller replaces.
#include <algorithm>
#include <set>
#include <vector>

#include "runtime/device/error.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/problems.h"
#include "runtime/loadable/program/execute.h"

namespace atalla::runtime::loadable {
namespace {

constexpr size_t kZeroBytes = size_t{1} << 20;

bool named(const View& view, const Value& value, std::string_view name) {
  return (value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer) && view.text(value.fqn) == name;
}

// The names, one a line, that the writer folded into other constants.
bool folded(const View& view, std::string_view name) {
  for (uint32_t i = 0; i < view.metadata.size(); ++i) {
    if (view.text(view.metadata[i].key) != "folded") continue;
    std::string lines = "\n" + std::string(view.text(view.metadata[i].value)) + "\n";
    return lines.find("\n" + std::string(name) + "\n") != std::string::npos;
  }
  return false;
}

// The storages that hold the parameter or buffer of this name; a problem when it cannot be replaced.
std::set<uint32_t> storages_of(const View& view, const atalla_replacement& given, Problems& problems) {
  std::string_view name = given.name == nullptr ? "" : given.name;
  std::set<uint32_t> found;
  if (folded(view, name)) {
    problems.add("'%.200s' was folded into other constants when the file was saved", given.name);
    return found;
  }
  for (uint32_t i = 0; i < view.values.size(); ++i) {
    Value value = view.values[i];
    if (!named(view, value, name)) continue;
    Storage storage = view.storages[value.storage];
    Shape shape = read_shape(view, value.ndim, value.sizes, value.strides);
    Int128 elements = 1;
    for (int d = 0; d < shape.ndim; ++d) elements *= shape.sizes[d];
    if (elements * element_bytes(value.dtype) != static_cast<Int128>(storage.bytes)) {
      problems.add("'%.200s' is a part of a stored tensor of %zu bytes", given.name, size_t{storage.bytes});
      return {};
    }
    if (given.bytes != storage.bytes) {
      problems.add("'%.200s' has %zu bytes, expected %zu", given.name, size_t{given.bytes}, size_t{storage.bytes});
      return {};
    }
    found.insert(value.storage);
  }
  if (found.empty()) problems.add("no parameter or buffer is named '%.200s'", std::string(name).c_str());
  else if (given.data == nullptr && given.bytes > 0) problems.add("'%.200s': data is a null pointer", given.name);
  return found;
}

}  // namespace

Stream& Program::state_stream() { return last_stream_ != nullptr ? *last_stream_ : image().device.default_stream(); }

Storage Program::state_storage(const char* name, size_t bytes) const {
  std::string_view wanted = name == nullptr ? "" : name;
  for (uint32_t i = 0; i < view().states.size(); ++i) {
    State state = view().states[i];
    if (view().text(state.name) != wanted) continue;
    Storage storage = view().storages[view().values[state.value].storage];
    if (bytes != storage.bytes)
      throw Error(ATALLA_ERR_ARGUMENT, "state '" + std::string(wanted) + "' has " + std::to_string(storage.bytes) +
                                           " bytes, not " + std::to_string(bytes));
    return storage;
  }
  throw Error(ATALLA_ERR_ARGUMENT, "no state is named '" + std::string(wanted) + "'");
}

void Program::write_initial_states(Stream& stream) {
  std::vector<std::byte> zeros;
  for (uint32_t i = 0; i < view().states.size(); ++i) {
    State state = view().states[i];
    Storage storage = view().storages[view().values[state.value].storage];
    if (storage.bytes == 0) continue;
    auto* place = static_cast<std::byte*>(image_->state.data()) + storage.offset;
    if (const auto initial = image_->initial.find(i); initial != image_->initial.end()) {
      stream.memcpy_h2d(place, initial->second.data(), storage.bytes);
      continue;
    }
    if (zeros.empty()) zeros.resize(kZeroBytes);
    for (uint64_t at = 0; at < storage.bytes; at += kZeroBytes)
      stream.memcpy_h2d(place + at, zeros.data(), std::min<uint64_t>(kZeroBytes, storage.bytes - at));
  }
}

void Program::reset_state() {
  std::lock_guard lock(mutex_);
  image();
  write_initial_states(state_stream());
}

void Program::read_state(const char* name, void* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  Storage storage = state_storage(name, bytes);
  const auto* place = static_cast<const std::byte*>(image().state.data()) + storage.offset;
  state_stream().memcpy_d2h(data, place, bytes);
}

void Program::write_state(const char* name, const void* data, size_t bytes) {
  std::lock_guard lock(mutex_);
  Storage storage = state_storage(name, bytes);
  auto* place = static_cast<std::byte*>(image().state.data()) + storage.offset;
  state_stream().memcpy_h2d(place, data, bytes);
}

// The new bytes go to a second buffer of each storage, while runs go on; then the addresses in all descriptors change
// between two runs. What is queued has copies of the old descriptors, and the old buffers stay until the next
// replacement, which waits for that work.
void Program::replace(std::span<const atalla_replacement> given) {
  std::lock_guard one_at_a_time(replace_mutex_);
  Problems problems;
  std::map<uint32_t, const atalla_replacement*> wanted;
  for (const atalla_replacement& item : given)
    for (uint32_t storage : storages_of(view(), item, problems))
      if (!wanted.emplace(storage, &item).second)
        problems.add("'%.200s' is given twice, or tied to another one that is given", item.name);
  if (!problems.empty()) throw Error(ATALLA_ERR_ARGUMENT, problems.text());
  std::map<uint32_t, DeviceBuffer> fresh;
  Device* device = nullptr;
  {
    std::lock_guard lock(mutex_);
    device = &image().device;
    if (!wanted.empty() && image_->code != nullptr)
      throw Error(ATALLA_ERR_UNSUPPORTED, "the Atalla code of " + file_->name() +
                                              " has its parameters in packed form, which cannot be replaced; load it "
                                              "for the functional engine only, or save it with the new parameters");
    if (last_stream_ != nullptr) last_stream_->drain();  // it may read the spare buffers
    for (auto& [storage, item] : wanted) {
      auto spare = image_->spare.find(storage);
      if (spare == image_->spare.end()) continue;
      fresh.emplace(storage, std::move(spare->second));
      image_->spare.erase(spare);
    }
  }
  for (auto& [storage, item] : wanted) {
    auto place = fresh.find(storage);
    if (place == fresh.end()) place = fresh.emplace(storage, DeviceBuffer(*device, item->bytes)).first;
    if (item->flags & ATALLA_REPLACE_DEVICE) {
      device->default_stream().memcpy_d2d(place->second.data(), item->data, item->bytes);
    } else {
      device->default_stream().memcpy_h2d(place->second.data(), item->data, item->bytes);
    }
  }
  device->default_stream().synchronize();
  std::lock_guard lock(mutex_);
  for (auto& [storage, buffer] : fresh) {
    image_->for_each_image(
        [&, index = storage, addr = buffer.addr()](MethodImage& image) { image.move_weight(index, addr); });
    DeviceBuffer& current = image_->replaced[storage];
    std::swap(current, buffer);
    if (buffer.data() != nullptr) image_->spare[storage] = std::move(buffer);
  }
}

}  // namespace atalla::runtime::loadable
