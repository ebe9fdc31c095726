// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/c_api/export.h"
#include "runtime/graph/graph.h"
#include "runtime/stream/stream.h"
#include "sim/abi/atalla.h"

namespace atalla::runtime {

// Records what is handed to streams, instead of running it. It begins on one stream; others join by waiting for an
// event that was recorded in it, and must be waited for by the first one before the end, directly or through others.
//
// What would need a result (synchronising or querying a captured stream, a copy that waits) is refused and makes the
// capture invalid: what it holds is then dropped at the end. All members may be called from any thread.
class ATALLA_RUNTIME_API Capture final : public StreamRecorder, public std::enable_shared_from_this<Capture> {
 public:
  // Throws Error (ATALLA_ERR_ARGUMENT) if the stream is capturing already. `owner` is the caller's own.
  static std::shared_ptr<Capture> begin(Stream& stream, void* owner = nullptr);
  ~Capture() override;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // The program, on the stream on which the capture began. Ends the capture also when it throws: because it was made
  // invalid, because a stream that joined was not waited for, or because it recorded nothing although the thread that
  // began it submitted work to other streams.
  std::unique_ptr<Graph> end(Stream& stream);
  void abort() noexcept;  // ends it, nothing is kept

  // The capture that the stream takes part in; null if it takes part in none.
  static Capture* of(const Stream& stream) noexcept { return dynamic_cast<Capture*>(stream.recorder()); }
  void* owner() const noexcept { return owner_; }

  // A launch whose seed and offset are given at replay from the random source of this number (from
  // 1 on); here [1] says how much of the source the graph draws before it.
  void launch_random(Stream& stream, const atalla_launch_desc& desc, uint32_t source);
  // Throws, and makes the capture invalid. `what` is for the text.
  [[noreturn]] void refuse(const char* what);

  // What Stream calls. Work that comes when the capture has just ended goes to the stream.
  void launch(Stream& stream, const atalla_launch_desc& desc) override;
  void copy(Stream& stream, const atalla_copy_params& params, bool blocking) override;
  void record(Stream& stream, EventRecord* record) override;
  // The record is of this capture, which the stream joins if it takes part in none; or it is not, which is refused.
  void wait(Stream& stream, EventRecord* record) override;
  void host_call(Stream& stream, std::function<void()> call) override;
  void meet(Stream& stream, MeetingCall call) override;
  void synchronize(Stream& stream) override;

 private:
  Capture(Stream& stream, void* owner);
  struct Lane {
    Stream* stream;
    std::vector<uint64_t> seen;  // by lane: how much of its work precedes whatever this lane does next
  };
  size_t lane_of(const Stream& stream) const;
  size_t join(Stream& stream);
  bool add_call(Stream& stream, Graph::Call& call);
  bool add_launch(Stream& stream, const atalla_launch_desc& desc, uint32_t source);
  void check_valid() const;
  void check_recorded() const;
  void leave();

  void* const owner_;
  std::unique_ptr<Graph> graph_;
  std::vector<Lane> lanes_;
  std::vector<std::vector<uint64_t>> events_;                  // `seen` of their lane when they were recorded
  const std::thread::id thread_ = std::this_thread::get_id();  // that began it
  std::string problem_;                                        // why it is invalid; empty: it is not
  bool active_ = true;
};

}  // namespace atalla::runtime
