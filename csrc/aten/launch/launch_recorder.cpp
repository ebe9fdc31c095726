// SPDX-License-Identifier: BSD-3-Clause
#include "aten/launch/launch_recorder.h"

#include <c10/util/Exception.h>

#include "runtime/device/runtime.h"
#include "runtime/stream/private_streams.h"

namespace atalla::aten {
namespace {

constexpr atalla_addr kFirstAddress = atalla_addr{1} << 60;  // no device has such memory
constexpr size_t kAlignment = 4096;

thread_local LaunchRecorder* recorder = nullptr;

}  // namespace

LaunchRecorder* LaunchRecorder::current() noexcept { return recorder; }

LaunchRecorder::LaunchRecorder()
    : before_(runtime::current_stream(runtime::current_device())),
      stream_(runtime::take_private_stream(before_.device())) {
  stream_.set_recorder(this);
  runtime::set_current_stream(stream_);
  recorder = this;
  alive_.fetch_add(1, std::memory_order_relaxed);
}

LaunchRecorder::~LaunchRecorder() {
  alive_.fetch_sub(1, std::memory_order_relaxed);
  recorder = nullptr;
  runtime::set_current_stream(before_);
  stream_.set_recorder(nullptr);
  runtime::give_back_private_stream(stream_);
}

void* LaunchRecorder::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  const atalla_addr end = blocks_.empty() ? kFirstAddress : blocks_.back().address + blocks_.back().bytes;
  blocks_.push_back({(end + kAlignment) / kAlignment * kAlignment, bytes, {}});
  return reinterpret_cast<void*>(blocks_.back().address);
}

void LaunchRecorder::copy(runtime::Stream&, const atalla_copy_params& params, bool) {
  if (params.kind == ATALLA_COPY_HOST_TO_DEVICE && params.rows <= 1) {
    for (Block& block : blocks_) {
      if (block.address != params.dst || block.bytes != params.row_bytes || block.content) continue;
      block.content.emplace(reinterpret_cast<const char*>(params.src), params.row_bytes);
      return;
    }
  }
  refuse("a copy between host and device");
}

// Other threads wait for the whole device, with all its streams.
void LaunchRecorder::synchronize(runtime::Stream&) {
  if (recorder == this) refuse("a result that the host waits for");
}

void LaunchRecorder::refuse(const char* what) { TORCH_CHECK(false, what, ", which a program cannot hold"); }

}  // namespace atalla::aten
