// SPDX-License-Identifier: BSD-3-Clause
//
// The way of a call through the backend. The collectives themselves stand in collectives.cpp, reductions.cpp and
// point_to_point.cpp.
#include "aten/distributed/backend.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StreamGuard.h>
#include <pybind11/pybind11.h>

#include <optional>

#include "aten/device/error.h"
#include "aten/device/streams.h"
#include "aten/distributed/arrival.h"
#include "aten/distributed/rank_clock.h"
#include "aten/distributed/reaper.h"
#include "runtime/graph/capture.h"
#include "runtime/stream/observer.h"
#include "runtime/stream/private_streams.h"

namespace atalla::aten {

namespace {

bool is_message(c10d::OpType type) {
  return type == c10d::OpType::SEND || type == c10d::OpType::RECV || type == c10d::OpType::RECVANYSOURCE;
}

// Whether a call waits for works of other calls or for one peer: then it gets a stream of its own.
bool goes_alone(c10d::OpType type) { return is_message(type) || type == c10d::OpType::COALESCED; }

}  // namespace

// Lives until the last of its commands has left the stream, executed or dropped.
struct CollectiveBackend::Job {
  Job(CollectiveBackend& owner, std::shared_ptr<const Call> made, c10::intrusive_ptr<CollectiveWork> its_work,
      runtime::Stream& its_stream)
      : backend(owner), type(made->type), call(std::move(made)), work(std::move(its_work)), stream(its_stream) {
    ++backend.under_way_;
  }
  ~Job() {
    if (line != nullptr) line->leave(ticket);
    if (!work->isCompleted()) {
      // A stream with a fault, or one of a process that ends, drops what it has. What was refused is known already.
      if (!refused && work->fault() == nullptr)
        backend.explain(*this, std::make_exception_ptr(std::runtime_error("the device dropped the call")));
      work->complete();
    }
    if (goes_alone(type)) runtime::give_back_private_stream(stream);
    call.reset();  // releases the tensors before the backend may go
    work.reset();
    if (kept) return;
    const std::lock_guard<std::mutex> lock(backend.done_mutex_);
    --backend.under_way_;
    backend.done_.notify_all();
  }
  // The call was captured: a graph runs it again and again, and keeps the backend.
  void keep() {
    kept = c10::intrusive_ptr<CollectiveBackend>::unsafe_reclaim_from_nonowning(&backend);
    --backend.under_way_;
  }

  CollectiveBackend& backend;
  const c10d::OpType type;
  std::shared_ptr<const Call> call;
  c10::intrusive_ptr<CollectiveWork> work;
  runtime::Stream& stream;
  c10::intrusive_ptr<CollectiveBackend> kept;
  std::shared_ptr<MessageLine> line;
  uint64_t ticket = 0;
  bool refused = false;
};

CollectiveBackend::CollectiveBackend(c10::intrusive_ptr<c10d::Backend> host,
                                     c10::intrusive_ptr<CollectiveOptions> options, HostBackendFactory make_host)
    : Backend(host->getRank(), host->getSize()),
      host_(std::move(host)),
      options_(std::move(options)),
      make_host_(std::move(make_host)),
      streams_(static_cast<size_t>(runtime::device_count()), nullptr) {
  init();
  start_rank_clocks();
}

CollectiveBackend::~CollectiveBackend() {
  wait_for_calls();
  for (runtime::Stream* stream : streams_)
    if (stream != nullptr) runtime::give_back_private_stream(*stream);
}

void CollectiveBackend::wait_for_calls() {
  // A host call that is waited for may need the interpreter's lock.
  std::optional<pybind11::gil_scoped_release> unlock;
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) unlock.emplace();
  std::unique_lock<std::mutex> lock(done_mutex_);
  done_.wait(lock, [this] { return under_way_ == 0; });
}

void CollectiveBackend::shutdown() {
  wait_for_calls();
  host_->shutdown();
}

c10d::ErrorType CollectiveBackend::getError() {
  return failed_ ? c10d::ErrorType::COMM_ERROR : c10d::ErrorType::SUCCESS;
}

void CollectiveBackend::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  host_->setTimeout(timeout);
}

void CollectiveBackend::abort() {
  waits_.abort();
  host_->abort();
}

// ------------------------------------------------------------------------------------------------------- new groups

c10::intrusive_ptr<c10d::Backend> CollectiveBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                           const std::vector<int>& ranks,
                                                           const c10::intrusive_ptr<Options>& options) {
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own == ranks.end()) return {};
  auto made = c10::make_intrusive<CollectiveOptions>(*options_);
  made->timeout = options->timeout;
  made->group_name = options->group_name;
  made->group_desc = options->group_desc;
  made->global_ranks_in_group.clear();
  for (const int rank : ranks) {
    const auto place = static_cast<size_t>(rank);
    const auto& known = options_->global_ranks_in_group;
    made->global_ranks_in_group.push_back(place < known.size() ? known[place] : static_cast<uint64_t>(rank));
  }
  if (const auto given = c10::dynamic_intrusive_pointer_cast<CollectiveOptions>(options))
    made->blocking_wait = given->blocking_wait;
  const int rank = static_cast<int>(own - ranks.begin());
  auto host = make_host_(store, rank, static_cast<int>(ranks.size()), made);
  return c10::make_intrusive<CollectiveBackend>(std::move(host), std::move(made), make_host_);
}

c10::intrusive_ptr<c10d::Backend> CollectiveBackend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                           const c10::intrusive_ptr<Options>& options, const int& rank,
                                                           const int& size) {
  auto made = c10::make_intrusive<CollectiveOptions>(*options_);
  made->timeout = options->timeout;
  made->group_name = options->group_name;
  made->group_desc = options->group_desc;
  made->global_ranks_in_group.clear();  // unknown: they are of several worlds
  auto host = make_host_(store, rank, size, made);
  return c10::make_intrusive<CollectiveBackend>(std::move(host), std::move(made), make_host_);
}

// ------------------------------------------------------------------------------------------------------------ a call

runtime::Stream& CollectiveBackend::collective_stream(runtime::Device& device) {
  runtime::Stream*& stream = streams_.at(static_cast<size_t>(device.ordinal()));
  if (stream == nullptr) stream = &runtime::take_private_stream(device);
  return *stream;
}

Work CollectiveBackend::submit(Call made) {
  const std::shared_ptr<const Call> call = dropped_elsewhere(new Call(std::move(made)), AtEnd::kKeep);
  c10::DeviceIndex index = call->device.value_or(-1);
  for (const Tensors* tensors : {&call->inputs, &call->outputs})
    for (const at::Tensor& t : *tensors) {
      if (index < 0) index = t.device().index();
      TORCH_CHECK_VALUE(t.device().index() == index, call->name,
                        ": expected all tensors on one device, got atalla:", static_cast<int>(index), " and ",
                        t.device());
    }
  TORCH_CHECK_VALUE(index >= 0, call->name, ": expected at least one tensor");

  const std::lock_guard<std::mutex> lock(submit_mutex_);
  runtime::Device& device = driver_call([&]() -> auto& { return runtime::Device::get(index); });
  auto work = c10::make_intrusive<CollectiveWork>(rank_, call->type, call->name, call->inputs, call->outputs, device,
                                                  ++sequence_, options_->blocking_wait);
  const bool alone = goes_alone(call->type);
  runtime::Stream& stream =
      driver_call([&]() -> auto& { return alone ? runtime::take_private_stream(device) : collective_stream(device); });
  const std::shared_ptr<Job> job = dropped_elsewhere(new Job(*this, call, work, stream), AtEnd::kDrop);
  if (call->message) {
    std::shared_ptr<MessageLine>& line = lines_[*call->message];
    if (line == nullptr) line = std::make_shared<MessageLine>();
    job->line = line;
    job->ticket = line->enter();
  }
  try {
    // Calls meet their peers' in the order of submission, also those of a process that uses several devices.
    if (!alone && latest_device_ != nullptr && latest_device_ != &device) {
      driver_call([&] {
        runtime::Event before(*latest_device_);
        before.record(collective_stream(*latest_device_));
        before.block(stream);
      });
    }
    enqueue(job);
  } catch (...) {
    job->refused = true;
    throw;
  }
  if (!alone) latest_device_ = &device;
  if (coalescing_) coalesced_.push_back(work);
  return work;
}

void CollectiveBackend::enqueue(const std::shared_ptr<Job>& job) {
  runtime::Stream& stream = job->stream;
  const Call& call = *job->call;
  driver_call([&] {
    runtime::Event ready(stream.device());
    ready.record(runtime::current_stream(stream.device().ordinal()));
    ready.block(stream);
    for (const auto& part : call.parts) part->order(stream);
  });
  if (runtime::Capture* capture = runtime::Capture::of(stream)) {
    if (is_message(job->type)) driver_call([&] { capture->refuse("a message between two ranks"); });
    job->keep();
  }

  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  const c10::StreamGuard guard(torch_stream(stream));
  if (call.prepare) call.prepare();
  driver_call([&] {
    stream.meet([job](uint64_t arrival) { return job->backend.exchange(*job, arrival); });
    if (call.link.messages != 0 && runtime::api().abi_minor >= ATALLA_ABI_MINOR_LINK) {
      const runtime::Submission submission(call.name);
      atalla_copy_params params{};
      params.struct_size = sizeof params;
      params.kind = static_cast<atalla_copy_kind>(call.link.kind);
      params.row_bytes = call.link.bytes;
      params.rows = call.link.messages;
      params.tag = submission.tag();
      stream.copy(params);
    }
  });
  if (call.finish) call.finish();
  job->work->submitted(stream);
  if (job->kept) return job->work->complete();
  driver_call([&] { stream.host_call([job] { job->work->complete(); }); });
}

// On the stream's worker. Returns the cycle at which the call may go on: this rank's `arrival`, or that of a later rank
// whose data it needs. What fails is a fault of the device (async_fault.h), and not of the stream: that one goes on,
// so that later calls complete, too.
uint64_t CollectiveBackend::exchange(Job& job, uint64_t arrival) {
  const Call& call = *job.call;
  const runtime::Device& device = job.stream.device();
  const int64_t own_time = rank_time(device, arrival);
  int64_t latest = own_time;
  try {
    for (const auto& part : call.parts)
      if (auto fault = part->fault()) {
        job.work->set_fault(std::move(fault));
        return arrival;
      }
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const auto peer = call.message ? int64_t{call.message->peer} : call.root;
    Arrival times(call.type, rank_, peer, call.message ? call.message->tag : 0, own_time);
    const auto post = [&] {
      HostWorks works = call.post ? call.post() : HostWorks{};
      if (call.link.messages != 0) times.post(*host_, works);
      return works;
    };
    const HostWorks works = job.line != nullptr ? job.line->in_turn(job.ticket, post) : post();
    const auto memory = std::make_shared<const std::pair<std::shared_ptr<const Call>, Arrival>>(job.call, times);
    waits_.wait(works, is_message(call.type), memory);
    if (call.settle) call.settle();
    if (call.type == c10d::OpType::RECV || call.type == c10d::OpType::RECVANYSOURCE) {
      const int source = works.front()->sourceRank();
      job.work->set_source_rank(source);
      if (call.type == c10d::OpType::RECVANYSOURCE)
        waits_.wait(times.receive_from(*host_, source), /*messages=*/true, memory);
    }
    latest = times.latest();
  } catch (...) {
    explain(job, std::current_exception());
  }
  return latest == own_time ? arrival : cycle_at(device, latest);
}

// Gloo's errors know neither the collective nor the rank.
void CollectiveBackend::explain(const Job& job, std::exception_ptr error) {
  failed_ = true;
  std::string text = c10::str(job.work->title(), " number ", job.work->getSequencenumber(), " of rank ", rank_, " of ",
                              size_, " failed: ");
  try {
    std::rethrow_exception(error);
  } catch (const c10::OutOfMemoryError& e) {
    text += e.what_without_backtrace();
  } catch (const c10::Error& e) {
    text += e.what_without_backtrace();
    error = std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, text));
  } catch (const std::exception& e) {
    text += e.what();
    error = std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, text));
  } catch (...) {
    text += "an unknown exception";
  }
  auto fault = std::make_shared<runtime::AsyncFault>(text, std::move(error));
  job.work->set_fault(fault);
  runtime::add_async_fault(job.stream.device(), std::move(fault));
}

void CollectiveBackend::startCoalescing() {
  TORCH_CHECK(!coalescing_, "accl: startCoalescing was called twice");
  coalesced_.clear();
  coalescing_ = true;
}

Work CollectiveBackend::endCoalescing() {
  TORCH_CHECK(coalescing_, "accl: endCoalescing without startCoalescing");
  coalescing_ = false;
  Call call{"accl:coalesced", c10d::OpType::COALESCED};
  call.parts = std::move(coalesced_);
  coalesced_.clear();
  if (call.parts.empty()) return {};
  for (const auto& work : call.parts)
    for (const at::Tensor& t : work->result()) call.outputs.push_back(t);
  if (call.outputs.empty()) call.device = static_cast<c10::DeviceIndex>(runtime::current_device());
  return submit(std::move(call));
}

}  // namespace atalla::aten
