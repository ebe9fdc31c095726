// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/loadable/program/charges.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "runtime/device/api.h"
#include "runtime/device/error.h"
#include "runtime/loadable/file/element.h"
#include "runtime/loadable/file/geometry.h"
#include "runtime/loadable/file/regions.h"
#include "runtime/loadable/program/code.h"
#include "runtime/loadable/program/golden.h"
#include "runtime/loadable/program/ports.h"

namespace atalla::runtime::loadable {
namespace {

constexpr uint32_t kChargesMinor = 6;  // of the device ABI
constexpr uint32_t kCyclesMinor = 7;   // of the ABI of code
constexpr uint64_t kAlignment = 4096;  // of a region, and least distance to the next: a tile may touch bytes behind it

struct Call {
  uint32_t address;
  int64_t core;  // or kAllCores
  uint32_t instruction;
};

std::vector<Call> calls_of(const View& view, const Code& code) {
  std::vector<Call> calls(code.calls.count / kCallNumbers);
  for (uint32_t k = 0; k < calls.size(); ++k) {
    const auto number = [&](uint32_t i) { return view.integers[code.calls.first + kCallNumbers * k + i]; };
    calls[k] = {static_cast<uint32_t>(number(0)), number(1), static_cast<uint32_t>(number(2))};
  }
  return calls;
}

// The golden whose inputs the code runs on; null without.
const Golden* golden_of(const View& view, uint32_t method, Golden* found) {
  for (uint32_t i = 0; i < view.goldens.size(); ++i)
    if ((*found = view.goldens[i]).method == method) return found;
  return nullptr;
}

// A machine whose memory has the regions of a method one after the other.
class CodeMachine {
 public:
  CodeMachine(const View& view, const Code& code, Device& device, uint32_t cores)
      : view_(view), code_(code), program_(view, code.packets, device), cores_(cores) {
    for (uint32_t kind = 0; kind <= static_cast<uint32_t>(Region::kState); ++kind) {
      const auto region = static_cast<Region>(kind);
      for (uint32_t i = 0; i < region_count(view, code, region); ++i) {
        places_[{region, i}] = bytes_;
        bytes_ += (region_bytes(view, code, region, i) / kAlignment + 2) * kAlignment;
      }
    }
  }
  ~CodeMachine() {
    if (handle_ != nullptr) isa_api()->machine_destroy(handle_);
  }
  CodeMachine(const CodeMachine&) = delete;
  CodeMachine& operator=(const CodeMachine&) = delete;

  bool fits() const { return bytes_ <= kCodeReach; }

  void open(const CodeContents& contents) {
    atalla_isa_params params{};
    params.struct_size = sizeof params;
    params.n_args = 1;
    params.args[0] = static_cast<uint32_t>(place(Region::kTable, 0));
    params.cores = cores_;
    check(isa_api()->machine_create(nullptr, bytes_, program_.handle(), &params, &handle_));
    write(Region::kConstants, 0, contents.constants.data(), contents.constants.size());
    for (const auto& [state, bytes] : *contents.initial) write(Region::kState, state, bytes.data(), bytes.size());
    write_inputs();
    std::vector<uint32_t> words(code_.words.count);
    for (uint32_t i = 0; i < code_.words.count; ++i) words[i] = view_.code_words[code_.words.first + i];
    for (uint32_t i = 0; i < code_.relocations.count; ++i) {
      const Relocation r = view_.relocations[code_.relocations.first + i];
      words[r.word] = static_cast<uint32_t>(place(r.region, r.index) + r.offset);
    }
    write(Region::kTable, 0, words.data(), words.size() * sizeof(uint32_t));
  }

  void stop_at(uint32_t address) { check(isa_api()->machine_break(handle_, address, 1)); }
  // Until the next call, or the end: false. Throws Error for a fault, and after so many packets.
  bool run(uint64_t packets) {
    uint32_t stop = 0;
    check(isa_api()->machine_run(handle_, packets, &stop));
    if (stop == ATALLA_ISA_BUDGET) throw Error(ATALLA_ERR_UNSUPPORTED, "the code does not end");
    return stop == ATALLA_ISA_BREAKPOINT;
  }
  atalla_isa_stats stats() const {
    atalla_isa_stats found{};
    found.struct_size = sizeof found;
    check(isa_api()->machine_stats(handle_, &found));
    return found;
  }
  uint32_t address(uint32_t core) const { return read<uint32_t>(ATALLA_ISA_PC, core); }
  uint64_t cycle(uint32_t core) const { return read<uint64_t>(ATALLA_ISA_CYCLE, core); }
  uint32_t cores() const { return cores_; }

 private:
  uint64_t place(Region region, uint32_t index) const { return places_.at({region, index}); }
  void write(Region region, uint32_t index, const void* data, uint64_t bytes) {
    if (bytes != 0) check(isa_api()->machine_write(handle_, ATALLA_ISA_DRAM, place(region, index), bytes, data));
  }
  template <class T>
  T read(uint32_t space, uint32_t core) const {
    T value = 0;
    check(isa_api()->machine_read(handle_, space | core << ATALLA_ISA_CORE_SHIFT, 0, sizeof value, &value));
    return value;
  }
  void write_inputs() {
    Golden stored{};
    const Golden* golden = golden_of(view_, code_.method, &stored);
    const MethodPorts ports(view_, code_.method, 0);
    for (uint32_t i = 0; i < ports.inputs.size(); ++i) {
      const atalla_tensor& type = ports.inputs[i].type;
      const bool integer = type.dtype <= ATALLA_I64 || type.dtype == ATALLA_BOOL;
      const auto bound = [&](uint32_t k, double other) {
        return golden != nullptr ? view_.doubles[golden->bounds.first + 2 * i + k] : other;
      };
      // An expanded input may have far more elements than bytes.
      uint64_t elements = 1;
      for (int d = 0; d < type.ndim; ++d)
        if (__builtin_mul_overflow(elements, static_cast<uint64_t>(type.sizes[d]), &elements)) elements = kCodeReach;
      if (elements > kCodeReach / element_bytes(type.dtype))
        throw Error(ATALLA_ERR_UNSUPPORTED, "an input of more elements than code reaches");
      std::vector<std::byte> memory(ports.inputs[i].storage_bytes);
      fill_golden(golden != nullptr ? golden->seed : 0, i, type, bound(0, 0), bound(1, integer ? 0 : 1), memory.data());
      write(Region::kInput, i, memory.data(), memory.size());
    }
  }

  const View& view_;
  const Code& code_;
  IsaProgram program_;
  uint32_t cores_;
  std::map<std::pair<Region, uint32_t>, uint64_t> places_;
  uint64_t bytes_ = kAlignment;
  atalla_isa_machine handle_ = nullptr;
};

// Which of a chip's cores makes which call next.
class Progress {
 public:
  Progress(const std::vector<Call>& calls, uint32_t cores) : calls_(calls), next_(cores) {
    for (uint32_t core = 0; core < cores; ++core) skip(core);
  }
  // The core that stopped before its next call: of several the one that is farthest behind, since it runs next. *call
  // is that call. False if none is there.
  bool stopped(const CodeMachine& machine, uint32_t* core, uint32_t* call) {
    bool found = false;
    uint64_t first = 0;
    for (uint32_t c = 0; c < next_.size(); ++c) {
      if (next_[c] == calls_.size() || machine.address(c) != calls_[next_[c]].address) continue;
      const uint64_t cycle = machine.cycle(c);
      if (found && cycle >= first) continue;
      found = true;
      first = cycle;
      *core = c;
    }
    if (!found) return false;
    *call = next_[*core]++;
    skip(*core);
    return true;
  }

 private:
  void skip(uint32_t core) {  // the calls of other cores
    const auto cores = static_cast<int64_t>(next_.size());
    while (next_[core] < calls_.size() && calls_[next_[core]].core != kAllCores &&
           calls_[next_[core]].core % cores != core)
      ++next_[core];
  }
  const std::vector<Call>& calls_;
  std::vector<uint32_t> next_;  // by core
};

struct Reading {
  uint64_t cycle;
  atalla_isa_stats stats;
};

// The units of the chip's counters.
class Units {
 public:
  Units() {
    for (uint32_t i = 0; i < ATALLA_ISA_UNITS && isa_api()->unit_name(i) != nullptr; ++i)
      numbers_.emplace(isa_api()->unit_name(i), i);
  }
  // Cycles of the busiest of the units between two readings, on one of the cores.
  uint64_t cycles(const Reading& from, const Reading& to, std::initializer_list<std::string_view> names,
                  uint64_t cores) const {
    uint64_t most = 0;
    for (const std::string_view name : names)
      if (const auto unit = numbers_.find(name); unit != numbers_.end())
        most = std::max(most, to.stats.unit_cycles[unit->second] - from.stats.unit_cycles[unit->second]);
    return most / cores;
  }

 private:
  std::map<std::string_view, uint32_t> numbers_;
};

atalla_energy energy_between(const atalla_energy& from, const atalla_energy& to) {
  atalla_energy part{};
  for (const auto member :
       {&atalla_energy::dram, &atalla_energy::bus, &atalla_energy::network, &atalla_energy::scratchpad,
        &atalla_energy::vector, &atalla_energy::array, &atalla_energy::control, &atalla_energy::link})
    part.*member = to.*member - from.*member;
  return part;
}

atalla_launch_charge charge_between(const Reading& from, const Reading& to, const Units& units, uint64_t cores) {
  atalla_launch_charge charge{};
  charge.struct_size = sizeof charge;
  charge.scratchpad_bytes = kCodeLeastPads * kCodePadBytes;  // code takes them whole
  charge.cycles = to.cycle - from.cycle;
  charge.sdma_cycles = std::min(charge.cycles, to.stats.bus_cycles - from.stats.bus_cycles);
  charge.vector_cycles = std::min(charge.cycles, units.cycles(from, to, {"valu", "vmul", "vexp"}, cores));
  charge.array_cycles = std::min(charge.cycles, units.cycles(from, to, {"gsau"}, cores));
  charge.dram_bytes_read = to.stats.dram_bytes_read - from.stats.dram_bytes_read;
  charge.dram_bytes_written = to.stats.dram_bytes_written - from.stats.dram_bytes_written;
  charge.macs = to.stats.macs - from.stats.macs;
  charge.energy = energy_between(from.stats.energy, to.stats.energy);
  return charge;
}

void add(atalla_launch_charge& sum, const atalla_launch_charge& more) {
  for (const auto member :
       {&atalla_launch_charge::cycles, &atalla_launch_charge::sdma_cycles, &atalla_launch_charge::vector_cycles,
        &atalla_launch_charge::array_cycles, &atalla_launch_charge::dram_bytes_read,
        &atalla_launch_charge::dram_bytes_written, &atalla_launch_charge::macs})
    sum.*member += more.*member;
  sum.scratchpad_bytes = more.scratchpad_bytes;
  atalla_energy_add(&sum.energy, &more.energy);
}

// Transfers that a call begins may go on under the next one, which then moves their bytes.
class Transfers {
 public:
  // Gives the charge the bytes that move in its cycles: some of those that are left, and of those of its own calls.
  void move(const Reading& from, const Reading& to, bool last, atalla_launch_charge* charge) {
    cycles_ += to.stats.bus_cycles - from.stats.bus_cycles;
    read_ += charge->dram_bytes_read;
    written_ += charge->dram_bytes_written;
    const uint64_t moved = last ? cycles_ : std::min(cycles_, charge->cycles);
    const auto part = [&](uint64_t bytes) { return cycles_ == moved ? bytes : bytes * moved / cycles_; };
    charge->dram_bytes_read = part(read_);
    charge->dram_bytes_written = part(written_);
    charge->sdma_cycles = std::min(moved, charge->cycles);
    read_ -= charge->dram_bytes_read;
    written_ -= charge->dram_bytes_written;
    cycles_ -= moved;
  }

 private:
  uint64_t cycles_ = 0, read_ = 0, written_ = 0;
};

// By instruction, what its calls take. What comes before the first call counts for it, and the last one's go to the
// end.
std::vector<atalla_launch_charge> measure(CodeMachine& machine, const std::vector<Call>& calls, size_t instructions,
                                          uint64_t packets) {
  std::vector<atalla_launch_charge> charges(instructions);
  for (atalla_launch_charge& charge : charges) charge.struct_size = sizeof charge;
  for (const Call& call : calls) machine.stop_at(call.address);
  const Units units;
  Progress progress(calls, machine.cores());
  uint32_t core = 0, call = 0, running = calls[0].instruction;
  Reading begin{};
  Transfers transfers;
  const auto end = [&](const Reading& now, bool last) {
    atalla_launch_charge charge = charge_between(begin, now, units, machine.cores());
    if (machine.cores() == 1) transfers.move(begin, now, last, &charge);
    add(charges[running], charge);
    begin = now;
  };
  while (machine.run(packets - begin.stats.packets)) {
    if (!progress.stopped(machine, &core, &call) || calls[call].instruction == running) continue;
    end({machine.cycle(core), machine.stats()}, false);
    running = calls[call].instruction;
    if (begin.stats.packets >= packets) throw Error(ATALLA_ERR_UNSUPPORTED, "the code does not end");
  }
  const atalla_isa_stats all = machine.stats();
  end({all.cycles, all}, true);
  return charges;
}

}  // namespace

std::vector<uint32_t> charges_of_code(const View& view, const Code& code, Device& device, const CodeContents& contents,
                                      uint64_t packets) {
  const std::vector<Call> calls = calls_of(view, code);
  if (calls.empty() || api().abi_minor < kChargesMinor || isa_api() == nullptr || isa_api()->abi_minor < kCyclesMinor)
    return {};
  std::vector<atalla_launch_charge> charges;
  try {
    check_runs_code(device);
    CodeMachine machine(view, code, device, cores_for(code, device));
    if (!machine.fits()) return {};
    machine.open(contents);
    charges = measure(machine, calls, view.methods[code.method].instructions.count, packets);
  } catch (const Error&) {  // for another chip, or wrong code; or a fault, which the launches meet as well
    return {};
  }
  std::vector<uint32_t> numbers(charges.size());
  for (size_t i = 0; i < charges.size(); ++i) check(api().charge_create(device.handle(), &charges[i], &numbers[i]));
  return numbers;
}

}  // namespace atalla::runtime::loadable
