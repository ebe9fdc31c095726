// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <ATen/core/GraphImplInterface.h>

#include <memory>

#include "aten/launch/graph_random.h"
#include "runtime/device/runtime.h"
#include "runtime/graph/capture.h"
#include "runtime/graph/graph.h"

namespace atalla::aten {

// torch.accelerator.Graph on atalla: a captured program, its memory pool and its random numbers. docs/guides/graphs.md.
class GraphImpl final : public at::GraphImplInterface {
 public:
  explicit GraphImpl(const at::GraphImplArgs& args) : keep_graph_(args.keep_graph) {}
  ~GraphImpl() override;

  void capture_begin(at::MempoolId_t pool, at::GraphCaptureMode mode) override;
  void capture_end() override;
  void instantiate() override;
  void replay() override;
  void reset() override;
  at::MempoolId_t pool() const override;
  void enable_debug_mode() override { debug_ = true; }
  void debug_dump(const std::string& path) override;

 private:
  void stop_allocating();
  void release_pool();

  const bool keep_graph_;
  bool debug_ = false;
  int device_ = -1;
  at::MempoolId_t pool_{0, 0};
  at::MempoolId_t host_pool_{0, 0};
  bool holds_pool_ = false;
  bool allocates_ = false;
  std::shared_ptr<runtime::Capture> capture_;
  std::unique_ptr<runtime::Graph> graph_;
  std::unique_ptr<GraphRandom> random_;
};

// An id that no other pool has, for graphs that share one.
at::MempoolId_t graph_pool_handle();

void register_graph();

}  // namespace atalla::aten
