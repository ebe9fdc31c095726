// SPDX-License-Identifier: BSD-3-Clause
#include "sim/host/thread_pool.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <mutex>
#include <thread>

#include "sim/abi/error.h"
#include "sim/device/config.h"
#include "sim/host/float_mode.h"
#include "sim/host/spin_lock.h"
#include "sim/kernels/base/kernel.h"

namespace atalla::sim {
namespace {

using Body = void (*)(void* context, int64_t begin, int64_t end);

// How long an idle thread looks for work before it sleeps: longer than the gap between two launches of a model, short
// enough that an idle process costs nothing.
constexpr auto kSpin = std::chrono::microseconds(100);

// More pieces than threads, so that one slow or preempted core does not hold up the others.
constexpr int64_t kPiecesPerThread = 4;

thread_local bool inside_parallel = false;

void futex_wait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

// Spins until `done` or until kSpin has passed.
template <class Done>
bool spin_until(Done&& done) {
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < 32; ++i) {
      if (done()) return true;
      cpu_pause();
    }
  } while (std::chrono::steady_clock::now() - start < kSpin);
  return done();
}

uint32_t default_threads() {
  uint32_t threads = 1;
  if (threads_setting(&threads) != ATALLA_OK) {  // of a program that opens no device, which would refuse the setting
    fprintf(stderr, "atalla: %s; using 1 thread\n", last_error());
  }
  return threads;
}

// One job at a time. A job is a number of pieces of a range, and each thread has a share of adjacent pieces: the same
// part of the memory in each of a kernel's launches, which so stays in the caches of its core. A thread claims its own
// pieces from the front, and then those that others have left, from the end. A share holds the job's number beside its
// pieces, so that a thread which comes late can never claim a piece of a job with the fields of another: while a piece
// is claimed, its job is not over and its fields stand.
class ThreadPool {
 public:
  ThreadPool() : threads_(default_threads()) {
    pthread_atfork(nullptr, nullptr, [] { instance().after_fork(); });
  }

  static ThreadPool& instance() {
    static ThreadPool* const pool = new ThreadPool;  // never destroyed: workers run until the process ends
    return *pool;
  }

  uint32_t threads() const { return threads_.load(std::memory_order_relaxed); }
  void set_threads(uint32_t threads) { threads_.store(threads, std::memory_order_relaxed); }

  // False when another thread's job holds the pool.
  bool try_run(int64_t n, int64_t grain, uint32_t threads, Body body, void* context) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    if (workers_ + 1 < threads) start_workers(threads - 1);
    const int64_t chunks = n / grain + (n % grain != 0);
    const auto pieces = static_cast<uint32_t>(std::min<int64_t>(chunks, int64_t{threads} * kPiecesPerThread));
    n_ = n;
    grain_ = grain;
    chunks_ = chunks;
    pieces_ = pieces;
    body_ = body;
    context_ = context;
    keep_workers_off(sched_getcpu());
    unfinished_.store(pieces, std::memory_order_relaxed);
    ++job_;
    shared_.store(threads, std::memory_order_relaxed);
    for (uint32_t i = 0; i < threads; ++i) {
      const uint64_t begin = uint64_t{pieces} * i / threads, end = uint64_t{pieces} * (i + 1) / threads;
      shares_[i].left.store(uint64_t{job_} << 32 | begin << 16 | end, std::memory_order_release);
    }
    posted_.fetch_add(1, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) != 0) futex_wake(posted_, static_cast<int>(pieces) - 1);
    inside_parallel = true;
    work(0);
    inside_parallel = false;
    wait_for_pieces();
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  // A share's first piece, or its last one; false if none is left.
  static bool claim(std::atomic<uint64_t>& share, bool first, int64_t* piece) {
    static_assert(kMaxThreads * kPiecesPerThread < 1 << 16);
    uint64_t left = share.load(std::memory_order_acquire);
    for (;;) {
      const uint64_t begin = left >> 16 & 0xffff, end = left & 0xffff;
      if (begin == end) return false;
      const uint64_t rest = first ? left + (1 << 16) : left - 1;
      if (!share.compare_exchange_weak(left, rest, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      *piece = static_cast<int64_t>(first ? begin : end - 1);
      return true;
    }
  }

  // Claims and runs pieces until the current job has none left. Share `own` is the calling thread's.
  void work(uint32_t own) {
    const uint32_t shared = shared_.load(std::memory_order_relaxed);
    for (uint32_t i = 0; i < shared; ++i) {
      const uint32_t share = (own + i) % shared;
      for (int64_t piece = 0; claim(shares_[share].left, i == 0, &piece);) run(piece);
    }
  }

  void run(int64_t piece) {
    // Pieces differ by at most one grain; quotient first, since chunks_ * pieces_ could overflow.
    const auto start = [&](int64_t p) {
      const int64_t chunk = chunks_ / pieces_ * p + chunks_ % pieces_ * p / pieces_;
      return chunk >= chunks_ ? n_ : chunk * grain_;
    };
    body_(context_, start(piece), start(piece + 1));
    if (unfinished_.fetch_sub(1, std::memory_order_seq_cst) == 1 && caller_sleeps_.load(std::memory_order_seq_cst)) {
      finished_.fetch_add(1, std::memory_order_seq_cst);
      futex_wake(finished_, 1);
    }
  }

  // The caller's core is for the caller: the host's scheduler may leave both there, taking turns for milliseconds,
  // while another core is idle. Sleeping workers wake up elsewhere.
  void keep_workers_off(int core) {
    const pid_t first = tids_[0].load(std::memory_order_acquire);
    if (core < 0 || core == left_ || first == 0) return;
    cpu_set_t allowed;
    if (sched_getaffinity(first, sizeof allowed, &allowed) != 0) return;
    // A mask that others set in the meantime holds. Else the workers may use the core again that they left before.
    if (left_ >= 0 && CPU_EQUAL(&allowed, &set_)) CPU_SET(static_cast<size_t>(left_), &allowed);
    left_ = core;
    set_ = allowed;
    CPU_CLR(static_cast<size_t>(core), &set_);
    if (CPU_COUNT(&set_) == 0) return;
    for (uint32_t i = 0; i < workers_; ++i) {
      const pid_t tid = tids_[i].load(std::memory_order_acquire);
      if (tid == 0) left_ = -1;  // again with the next job, when it has started
      else sched_setaffinity(tid, sizeof set_, &set_);
    }
  }

  void wait_for_pieces() {
    const auto done = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
    if (done() || spin_until(done)) return;
    caller_sleeps_.store(true, std::memory_order_seq_cst);
    for (;;) {
      const uint32_t seen = finished_.load(std::memory_order_seq_cst);
      if (unfinished_.load(std::memory_order_seq_cst) == 0) break;
      // Whoever finishes last either sees caller_sleeps_, and wakes us, or counted down before we look here: both
      // sides are sequentially consistent.
      futex_wait(finished_, seen);
    }
    caller_sleeps_.store(false, std::memory_order_seq_cst);
  }

  void start_workers(uint32_t wanted) {
    if (workers_ == 0) {
      // A host that unloads this library would pull the code from under its workers: pin it.
      Dl_info info;
      if (dladdr(reinterpret_cast<void*>(&futex_wake), &info) != 0 && info.dli_fname != nullptr) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
      }
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the host's signals are for the host's threads
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (workers_ < wanted) {
      pthread_t thread;
      auto* index = reinterpret_cast<void*>(static_cast<uintptr_t>(workers_));
      const auto main = [](void* i) -> void* {
        instance().worker(static_cast<uint32_t>(reinterpret_cast<uintptr_t>(i)));
        return nullptr;
      };
      if (pthread_create(&thread, &attributes, main, index) != 0) break;  // fewer threads then; never an error
      pthread_setname_np(thread, "atalla-pool");
      ++workers_;
      left_ = -1;
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void worker(uint32_t index) {
    inside_parallel = true;  // for ever: what a piece calls runs inline
    const ChipFloatMode mode;
    tids_[index].store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
    for (;;) {
      const uint32_t seen = posted_.load(std::memory_order_seq_cst);
      if (index + 1 < threads()) work(index + 1);
      if (spin_until([&] { return posted_.load(std::memory_order_relaxed) != seen; })) continue;
      sleeping_.fetch_add(1, std::memory_order_seq_cst);
      futex_wait(posted_, seen);
      sleeping_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }

  // Only the forking thread exists in the child: no workers, and no job of another thread.
  void after_fork() {
    workers_ = 0;
    left_ = -1;
    for (std::atomic<pid_t>& tid : tids_) tid.store(0);
    sleeping_.store(0);
    for (Share& share : shares_) share.left.store(0);
    unfinished_.store(0);
    caller_sleeps_.store(false);
    if (!inside_parallel) busy_.store(false);
  }

  std::atomic<uint32_t> threads_;
  std::atomic<pid_t> tids_[kMaxThreads] = {};  // of the workers that have started
  alignas(64) std::atomic<bool> busy_{false};
  // The fields of the job; written by the thread that holds busy_.
  uint32_t workers_ = 0;
  int left_ = -1;    // the core that the workers keep off
  cpu_set_t set_{};  // those that they have instead
  uint32_t job_ = 0;
  uint32_t pieces_ = 0;
  int64_t n_ = 0;
  int64_t grain_ = 0;
  int64_t chunks_ = 0;
  Body body_ = nullptr;
  void* context_ = nullptr;
  struct alignas(64) Share {
    std::atomic<uint64_t> left{0};  // job << 32 | first piece << 16 | end, of those that no thread has claimed
  };
  Share shares_[kMaxThreads];
  std::atomic<uint32_t> shared_{0};                  // shares of the latest job
  alignas(64) std::atomic<uint32_t> unfinished_{0};  // pieces of the job that are not done
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<uint32_t> finished_{0};
  alignas(64) std::atomic<uint32_t> posted_{0};  // jobs so far: what idle workers watch
  std::atomic<uint32_t> sleeping_{0};
};

}  // namespace

void parallel_for(int64_t n, int64_t grain, Body body, void* context) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (n > grain && !inside_parallel) {
    ThreadPool& pool = ThreadPool::instance();
    const uint32_t threads = pool.threads();
    if (threads > 1 && pool.try_run(n, grain, threads, body, context)) return;
  }
  body(context, 0, n);
}

atalla_status threads_setting(uint32_t* threads) {
  const uint64_t cores = std::clamp<uint64_t>(std::thread::hardware_concurrency(), 1, kMaxThreads);
  uint64_t cap = cores;
  ATALLA_CHECK(read_env_integer("ATALLA_NUM_THREADS", 1, kMaxThreads, cores, &cap));
  *threads = static_cast<uint32_t>(std::min(cores, cap));
  return ATALLA_OK;
}

atalla_status set_pool_threads(uint32_t threads) {
  if (threads < 1 || threads > kMaxThreads) {
    return set_error(ATALLA_ERR_ARGUMENT, "%u threads; expected 1 to %u", threads, kMaxThreads);
  }
  ThreadPool::instance().set_threads(threads);
  return ATALLA_OK;
}

uint32_t pool_threads() { return ThreadPool::instance().threads(); }

}  // namespace atalla::sim
