// SPDX-License-Identifier: BSD-3-Clause
#include "aten/launch/graph.h"

#include <ATen/core/CachingHostAllocator.h>

#include <fstream>

#include "aten/device/allocator.h"
#include "aten/device/error.h"
#include "aten/device/host_allocator.h"

namespace atalla::aten {

at::MempoolId_t graph_pool_handle() { return runtime::new_user_pool_id(); }

GraphImpl::~GraphImpl() {
  try {
    reset();
  } catch (...) {  // the pool is that of a device which is going away
  }
}

void GraphImpl::capture_begin(at::MempoolId_t pool, at::GraphCaptureMode) {
  TORCH_CHECK(capture_ == nullptr, "This graph instance is capturing already.");
  TORCH_CHECK(graph_ == nullptr,
              "This graph instance already owns a captured graph. To capture a new graph, create a new instance or "
              "call reset().");
  TORCH_CHECK(pool.first == 0 || pool.second == 0, "Expected the id of a memory pool, which has one part, got (",
              pool.first, ", ", pool.second, ")");
  const int device = runtime::current_device();
  driver_call([&] {
    runtime::Stream& stream = runtime::current_stream(device);
    TORCH_CHECK(stream.id() != 0,
                "Graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on "
                "the default stream.)");
    random_ = std::make_unique<GraphRandom>();
    capture_ = runtime::Capture::begin(stream, random_.get());
  });
  device_ = device;
  pool_ = pool;
  if (pool == at::MempoolId_t{}) pool_ = runtime::new_graph_pool_id();
  try {
    driver_call([&] {
      runtime::Device::get(device).allocator().begin_allocate_to_pool(
          pool_, [capture = capture_.get()](const runtime::Stream& s) { return s.recorder() == capture; });
    });
  } catch (...) {
    capture_.reset();
    random_.reset();
    throw;
  }
  allocates_ = holds_pool_ = true;
  // Pinned memory of the capture has a pool of its own, too, and is not handed to others while the graph lives.
  host_pool_ = runtime::new_graph_pool_id();
  host_allocator()->begin_allocate_to_pool(host_pool_, [capture = capture_.get()](c10::Stream s) {
    return s.device_type() == c10::DeviceType::PrivateUse1 &&
           runtime::Device::get(s.device_index()).stream(s.id()).recorder() == capture;
  });
}

void GraphImpl::stop_allocating() {
  if (!std::exchange(allocates_, false)) return;
  driver_call([&] { runtime::Device::get(device_).allocator().end_allocate_to_pool(pool_); });
  host_allocator()->end_allocate_to_pool(host_pool_);
}

void GraphImpl::release_pool() {
  if (!std::exchange(holds_pool_, false)) return;
  driver_call([&] { runtime::Device::get(device_).allocator().release_pool(pool_); });
  host_allocator()->release_pool(host_pool_);
}

void GraphImpl::capture_end() {
  TORCH_CHECK(capture_ != nullptr, "capture_end was called on a graph that is not capturing.");
  const auto capture = std::move(capture_);
  std::unique_ptr<runtime::Graph> graph;
  try {
    graph = driver_call([&] { return capture->end(runtime::current_stream(device_)); });
  } catch (...) {
    stop_allocating();
    release_pool();
    random_.reset();
    throw;
  }
  stop_allocating();
  graph_ = std::move(graph);
  if (graph_->empty()) {
    TORCH_WARN(
        "The graph is empty. This usually means that the graph was attempted to be captured on wrong device or "
        "stream.");
  }
  if (!keep_graph_) instantiate();
}

void GraphImpl::instantiate() {
  TORCH_CHECK(graph_ != nullptr, "instantiate was called on a graph without a preceding successful capture.");
  driver_call([&] { graph_->instantiate(); });
}

void GraphImpl::replay() {
  TORCH_CHECK(graph_ != nullptr, "replay was called on a graph without a preceding successful capture.");
  driver_call([&] {
    runtime::Stream& stream = runtime::current_stream(device_);
    if (runtime::Capture* capture = runtime::Capture::of(stream))
      capture->refuse("replay of a graph inside another one");
    const auto bases = random_->begin_replay(graph_->sources());
    graph_->replay(stream, bases.data(), bases.size());
  });
}

void GraphImpl::reset() {
  if (capture_ != nullptr) {
    capture_->abort();
    capture_.reset();
    stop_allocating();
  }
  graph_.reset();
  random_.reset();
  release_pool();
}

at::MempoolId_t GraphImpl::pool() const {
  TORCH_CHECK(holds_pool_, "pool() was called on a graph without a preceding capture.");
  return pool_;
}

void GraphImpl::debug_dump(const std::string& path) {
  TORCH_CHECK(debug_, "Debugging is not enabled: call enable_debug_mode() before debug_dump().");
  TORCH_CHECK(graph_ != nullptr, "debug_dump was called on a graph without a preceding successful capture.");
  std::ofstream file(path);
  file << driver_call([&] { return graph_->dot(); });
  file.close();
  TORCH_CHECK(file.good(), "debug_dump: cannot write ", path);
}

void register_graph() {
  const std::string key = c10::DeviceTypeName(c10::DeviceType::PrivateUse1, /*lower_case=*/false);
  if (at::GraphImplRegistry()->Has(key)) return;
  at::GraphImplRegistry()->Register(key, [](at::GraphImplArgs args) -> std::unique_ptr<at::GraphImplInterface> {
    return std::make_unique<GraphImpl>(args);
  });
}

}  // namespace atalla::aten
