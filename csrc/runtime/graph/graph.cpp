// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/graph/graph.h"

#include <cstring>
#include <string>
#include <utility>

#include "kernel_parameters.h"
#include "runtime/device/device.h"
#include "runtime/device/error.h"
#include "runtime/stream/event.h"
#include "runtime/stream/observer.h"
#include "runtime/stream/stream.h"

namespace atalla::runtime {
namespace {

// Seed and offset, which all kernels of random numbers have in the same places (test_kernel_contracts.py).
using RandomSource = RandomBernoulliParameters;

}  // namespace

Graph::Graph(Device& device) : device_(device) {}
Graph::~Graph() = default;

size_t Graph::append(const void* data, size_t bytes) {
  const size_t place = bytes_.size();
  bytes_.resize(place + (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  std::memcpy(bytes_.data() + place, data, bytes);
  return place;
}

atalla_launch_desc& Graph::launch_at(const Step& step) {
  return *reinterpret_cast<atalla_launch_desc*>(bytes_.data() + step.place);
}
const atalla_launch_desc& Graph::launch_at(const Step& step) const {
  return *reinterpret_cast<const atalla_launch_desc*>(bytes_.data() + step.place);
}
const atalla_copy_params& Graph::copy_at(const Step& step) const {
  return *reinterpret_cast<const atalla_copy_params*>(bytes_.data() + step.place);
}

void Graph::add_launch(uint8_t lane, const atalla_launch_desc& desc, uint32_t random) {
  if (desc.n_operands > ATALLA_MAX_OPERANDS) {
    throw Error(ATALLA_ERR_ARGUMENT, "a launch of " + std::to_string(desc.n_operands) + " operands, at most " +
                                         std::to_string(ATALLA_MAX_OPERANDS) + " are possible");
  }
  const size_t place = append(&desc, atalla_launch_desc_bytes(desc.n_operands));
  const uint64_t offset = random != 0 ? static_cast<uint64_t>(RandomSource::read(desc).offset) : 0;
  steps_.push_back({Kind::kLaunch, lane, random, {offset}, place});
  if (random > sources_) sources_ = random;
  ++launches_;
}

void Graph::add_copy(uint8_t lane, const atalla_copy_params& params) {
  steps_.push_back({Kind::kCopy, lane, 0, {0}, append(&params, sizeof params)});
  ++copies_;
}

void Graph::add_call(uint8_t lane, Call call) {
  steps_.push_back({Kind::kHostCall, lane, 0, {0}, calls_.size()});
  calls_.push_back(std::move(call));
}

// A wait for an event of the same lane orders nothing, and a record that nobody waits for neither.
void Graph::prune() {
  std::vector<uint8_t> lane_of(n_events_, 0), awaited(n_events_, 0);
  for (const Step& step : steps_) {
    if (step.kind == Kind::kRecord) lane_of[step.event] = step.lane;
    if (step.kind == Kind::kWait && lane_of[step.event] != step.lane) awaited[step.event] = 1;
  }
  std::erase_if(steps_, [&](const Step& step) {
    if (step.kind == Kind::kRecord) return awaited[step.event] == 0;
    return step.kind == Kind::kWait && lane_of[step.event] == step.lane;
  });
}

void Graph::instantiate() {
  std::lock_guard lock(mutex_);
  if (instantiated_) return;
  prune();
  events_.resize(n_events_);
  for (const Step& step : steps_) {
    if (step.kind == Kind::kRecord) events_[step.event] = std::make_unique<Event>(device_);
  }
  instantiated_ = true;
}

void Graph::replay(Stream& stream, const RandomBase* bases, size_t n_bases) {
  if (&stream.device() != &device_) {
    throw Error(ATALLA_ERR_ARGUMENT, "a graph of device " + std::to_string(device_.ordinal()) +
                                         " cannot be replayed on a stream of device " +
                                         std::to_string(stream.device().ordinal()));
  }
  if (n_bases != sources_) {
    throw Error(ATALLA_ERR_ARGUMENT,
                std::to_string(n_bases) + " random sources given, the graph has " + std::to_string(sources_));
  }
  instantiate();
  count_submissions(static_cast<uint32_t>(steps_.size()));
  std::lock_guard lock(mutex_);
  for (size_t lane = 0; lane < lanes_.size(); ++lane) {
    if ((lane == 0 ? stream : *lanes_[lane]).recorder() != nullptr) {
      throw Error(ATALLA_ERR_ARGUMENT,
                  "operation not permitted when stream is capturing: replay of a graph that another one would hold");
    }
  }
  for (const Step& step : steps_) {
    Stream& target = step.lane == 0 ? stream : *lanes_[step.lane];
    switch (step.kind) {
      case Kind::kLaunch: {
        atalla_launch_desc& desc = launch_at(step);
        if (step.random != 0) {
          const RandomBase& base = bases[step.random - 1];
          RandomSource{.seed = static_cast<int64_t>(base.seed),
                       .offset = static_cast<int64_t>(base.offset + step.random_offset)}
              .write(&desc);
        }
        const Submission submission("atallaLaunchKernel");
        desc.tag = submission.tag();  // not the capture's
        target.launch(desc);
        break;
      }
      case Kind::kCopy: {
        const Submission submission("atallaMemcpyAsync");
        atalla_copy_params copy = copy_at(step);
        copy.tag = submission.tag();
        target.copy(copy);
        break;
      }
      case Kind::kHostCall:
        if (const auto* call = std::get_if<MeetingCall>(&calls_[step.place])) target.meet(*call);
        else target.host_call(std::get<std::function<void()>>(calls_[step.place]));
        break;
      case Kind::kRecord:
        events_[step.event]->record(target);
        break;
      case Kind::kWait:
        events_[step.event]->block(target);
        break;
    }
  }
}

}  // namespace atalla::runtime
