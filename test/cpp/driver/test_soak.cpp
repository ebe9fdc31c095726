// SPDX-License-Identifier: BSD-3-Clause
//
// Eight threads, each with four streams of its own on two devices, submit a random mix of everything that the driver
// does, and hand buffers to each other through events. Every value is a small whole number that the host knows too, so
// each read compares exactly.
//
// ATALLA_SOAK: steps a stream (default 250; 10,000 is the full soak, as `make soak` runs it under TSan and ASan).
#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "driver/support.h"

using namespace driver_test;

namespace {

constexpr int kThreads = 8;
constexpr int kStreams = 4;         // a thread
constexpr size_t kMaxBuffers = 12;  // a stream

int steps_per_stream() {
  const char* text = std::getenv("ATALLA_SOAK");
  return text != nullptr ? std::atoi(text) : 250;
}

// Device memory of `count` floats that all have the value `value` once the stream's work is done.
struct Buffer {
  float* ptr = nullptr;
  int64_t count = 0;
  float value = 0;
};

struct Letter {
  Buffer buffer;
  std::shared_ptr<Event> ready;
};

class Mailbox {
 public:
  void post(Letter letter) {
    std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }
  bool take(Letter* letter) {
    std::lock_guard lock(mutex_);
    if (letters_.empty()) return false;
    *letter = std::move(letters_.front());
    letters_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<Letter> letters_;
};

Mailbox mailboxes[kThreads];
std::atomic<int64_t> calls_wanted{0}, calls_made{0}, values_checked{0}, letters_read{0};

void free_buffer(const Buffer& buffer) { Device::get(*device_of(buffer.ptr)).allocator().free(buffer.ptr); }

class Lane {
 public:
  Lane(Stream& stream, std::mt19937& random) : stream_(stream), random_(random), event_(stream.device()) {}

  Stream& stream() { return stream_; }

  Buffer allocate() {
    static constexpr int64_t kCounts[] = {1, 7, 100, 1024, 5000, 70000};
    Buffer buffer;
    buffer.count = kCounts[roll(10) == 0 ? 5 : roll(5)];
    buffer.ptr = static_cast<float*>(
        stream_.device().allocator().allocate(static_cast<size_t>(buffer.count) * sizeof(float), stream_));
    fill(buffer);
    return buffer;
  }
  void fill(Buffer& buffer) {
    buffer.value = static_cast<float>(roll(100));
    stream_.launch(fill_desc(buffer.ptr, buffer.count, buffer.value));
  }
  // Of one size with `like`, which the stream may read now.
  Buffer sum(const Buffer& a, const Buffer& b, int64_t count) {
    Buffer result;
    result.count = count;
    result.ptr =
        static_cast<float*>(stream_.device().allocator().allocate(static_cast<size_t>(count) * sizeof(float), stream_));
    stream_.launch(add_desc(result.ptr, a.ptr, b.ptr, count));
    result.value = a.value + b.value;
    return result;
  }
  void verify(const Buffer& buffer) {
    std::vector<float> host(static_cast<size_t>(buffer.count), -1.0f);
    stream_.memcpy_d2h(host.data(), buffer.ptr, host.size() * sizeof(float));
    const auto wrong = std::count_if(host.begin(), host.end(), [&](float v) { return v != buffer.value; });
    if (wrong != 0) CHECK_EQ(host.front(), buffer.value);
    values_checked += buffer.count;
  }
  void verify_later(const Buffer& buffer) {
    auto host = std::make_shared<std::vector<float>>(static_cast<size_t>(buffer.count), -1.0f);
    stream_.memcpy_d2h(host->data(), buffer.ptr, host->size() * sizeof(float), true);
    ++calls_wanted;
    stream_.host_call([host, value = buffer.value] {
      const auto wrong = std::count_if(host->begin(), host->end(), [&](float v) { return v != value; });
      CHECK_EQ(wrong, 0);
      values_checked += static_cast<int64_t>(host->size());
      ++calls_made;
    });
  }
  void upload(Buffer& buffer) {
    buffer.value = static_cast<float>(roll(100));
    const size_t bytes = static_cast<size_t>(buffer.count) * sizeof(float);
    if (roll(2) == 0) {
      const std::vector<float> host(static_cast<size_t>(buffer.count), buffer.value);
      return stream_.memcpy_h2d_staged(buffer.ptr, host.data(), bytes);
    }
    auto host = std::make_shared<std::vector<float>>(static_cast<size_t>(buffer.count), buffer.value);
    stream_.memcpy_h2d(buffer.ptr, host->data(), bytes, true);
    ++calls_wanted;
    stream_.host_call([host] { ++calls_made; });  // keeps the memory until the copy is done
  }
  // The other stream reads a buffer of this one, which is freed while it may still do so.
  void lend(Lane& other) {
    if (buffers_.empty() || &other == this) return;
    Buffer buffer = take();
    event_.record(stream_);
    event_.block(other.stream_);
    other.buffers_.push_back(other.receive(buffer));
  }
  // A buffer of any stream whose work this one already waits for; its owner has given it up.
  Buffer receive(const Buffer& buffer) {
    Device& home = Device::get(*device_of(buffer.ptr));
    home.allocator().record_stream(buffer.ptr, stream_);
    Buffer result;
    result.count = buffer.count;
    result.value = buffer.value;
    result.ptr = static_cast<float*>(
        stream_.device().allocator().allocate(static_cast<size_t>(buffer.count) * sizeof(float), stream_));
    stream_.memcpy_d2d(result.ptr, buffer.ptr, static_cast<size_t>(buffer.count) * sizeof(float));
    home.allocator().free(buffer.ptr);
    return result;
  }
  void post(Mailbox& mailbox) {
    if (buffers_.empty()) return;
    Letter letter{take(), std::make_shared<Event>(stream_.device())};
    letter.ready->record(stream_);
    mailbox.post(std::move(letter));
  }
  void read(Mailbox& mailbox) {
    Letter letter;
    if (!mailbox.take(&letter)) return;
    letter.ready->block(stream_);
    buffers_.push_back(receive(letter.buffer));
    ++letters_read;
  }

  void step(Lane& other, int thread) {
    const int what = roll(100);
    if (buffers_.size() < 2 || (what < 15 && buffers_.size() < kMaxBuffers)) {
      buffers_.push_back(allocate());
    } else if (what < 35) {
      Buffer& a = any();
      Buffer& b = any();
      Buffer result = sum(a, b, std::min(a.count, b.count));
      if (result.value > 1e6f) fill(result);
      free_buffer(std::exchange(a, result));
    } else if (what < 45) {
      fill(any());
    } else if (what < 55) {
      upload(any());
    } else if (what < 60) {
      verify(any());
    } else if (what < 70) {
      verify_later(any());
    } else if (what < 78) {
      free_buffer(take());
    } else if (what < 85) {
      lend(other);
    } else if (what < 89) {
      post(mailboxes[(thread + 1 + roll(kThreads - 1)) % kThreads]);
    } else if (what < 93) {
      read(mailboxes[thread]);
    } else if (what < 96) {
      event_.record(stream_);
      (void)event_.query();
      if (roll(4) == 0) event_.synchronize(), CHECK(event_.query());
    } else if (what < 98) {
      (void)stream_.query();
    } else if (what < 99) {
      stream_.synchronize();
    } else if (roll(20) == 0) {
      stream_.device().allocator().empty_cache();
    } else if (roll(10) == 0) {
      stream_.device().synchronize();
    }
  }
  void finish() {
    for (const Buffer& buffer : buffers_) verify(buffer), free_buffer(buffer);
    buffers_.clear();
    stream_.synchronize();
  }

 private:
  int roll(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Buffer& any() { return buffers_[static_cast<size_t>(roll(static_cast<int>(buffers_.size())))]; }
  Buffer take() {
    std::swap(any(), buffers_.back());
    Buffer buffer = buffers_.back();
    buffers_.pop_back();
    return buffer;
  }

  Stream& stream_;
  std::mt19937& random_;
  Event event_;
  std::vector<Buffer> buffers_;
};

void work(int thread) {
  std::mt19937 random(static_cast<unsigned>(thread) + 1);
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < kStreams; ++i)
    lanes.push_back(std::make_unique<Lane>(Device::get(i % 2).new_stream(i / 2 == 0 ? 0 : -1), random));
  const int steps = steps_per_stream() * kStreams;
  for (int step = 0; step < steps; ++step) {
    Lane& lane = *lanes[random() % kStreams];
    lane.step(*lanes[random() % kStreams], thread);
  }
  for (auto& lane : lanes) lane->finish();
}

void soak() {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i] {
      try {
        work(i);
      } catch (const std::exception& error) {
        check::note(false, __FILE__, __LINE__, std::string("thread: ") + error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Letter letter;
  for (Mailbox& mailbox : mailboxes) {
    while (mailbox.take(&letter)) letter.ready->synchronize(), free_buffer(letter.buffer);
  }
  for (int i = 0; i < 2; ++i) {
    Device& device = Device::get(i);
    device.synchronize();
    device.allocator().empty_cache();
    const Stats stats = device.allocator().stats();
    CHECK_EQ(stats.allocated_bytes[0].current, 0);
    CHECK_EQ(stats.active_bytes[0].current, 0);
    CHECK_EQ(stats.reserved_bytes[0].current, 0);
    uint64_t free_bytes = 0, total_bytes = 1;
    device.memory_info(&free_bytes, &total_bytes);
    CHECK_EQ(free_bytes, total_bytes);
  }
  CHECK(calls_wanted > 0);
  CHECK_EQ(calls_made.load(), calls_wanted.load());
  CHECK(values_checked > 10000);
  CHECK(letters_read > 0);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) return run(soak);
  for (const char* mode : {"auto", "queued"}) {
    setenv("ATALLA_LAUNCH", mode, 1);
    std::printf("%s: ", mode);
    CHECK_EQ(run_self("--body"), 0);
  }
  return check_report();
}
