// SPDX-License-Identifier: BSD-3-Clause
//
// The Atalla code of a program on its device: decoded packets, and in DRAM constants, temporaries and tables.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "runtime/loadable/file/file.h"
#include "runtime/loadable/program/ports.h"
#include "sim/abi/atalla_isa.h"

namespace atalla::runtime::loadable {

// Addresses of byte 0 of the regions that methods share.
struct CodePlaces {
  uint64_t constants;
  uint64_t arena;
  uint64_t state;
};

// Throws Error (ATALLA_ERR_UNSUPPORTED) unless the device runs Atalla code and has the geometry that it is for.
void check_runs_code(const Device& device);
// That run the code, on this device. Throws likewise.
uint32_t cores_for(const Code& code, const Device& device);

// The code of each method, by values of the method's symbols.
using CodeRecords = std::vector<std::map<std::vector<int64_t>, Code>>;
CodeRecords code_records(const View& view);

// Decoded packets.
class IsaProgram {
 public:
  IsaProgram(const View& view, Range packets, Device& device);
  ~IsaProgram();
  IsaProgram(const IsaProgram&) = delete;
  IsaProgram& operator=(const IsaProgram&) = delete;
  atalla_isa_program handle() const noexcept { return handle_; }

 private:
  atalla_isa_program handle_ = nullptr;
};

// One method as code, for the sizes of the view.
class MethodCode : public MethodPorts {
 public:
  // Throws Error: ATALLA_ERR_UNSUPPORTED for a region beyond the addresses of code, ATALLA_ERR_FORMAT for a relocation
  // behind an input or output of these sizes. The program must outlive the code.
  MethodCode(const View& view, const Code& code, Device& device, const CodePlaces& places, const IsaProgram& program);
  MethodCode(const MethodCode&) = delete;
  MethodCode& operator=(const MethodCode&) = delete;

  // Runs to the end with the addresses that the ports are bound to, on the calling thread, after the stream's earlier
  // work. max_packets: 0: no limit; reaching it is a fault.
  void run(Stream& stream, uint64_t max_packets, atalla_isa_stats* stats);

 private:
  // A word that holds the address of a port, plus an offset.
  struct PortWord {
    uint32_t word;
    const BoundPort* port;
    uint64_t offset;
  };
  uint32_t word_of(uint64_t addr, uint64_t bytes, const char* what) const;

  Device& device_;
  const IsaProgram& program_;
  uint32_t cores_;
  DeviceBuffer table_;
  std::vector<uint32_t> words_;
  std::vector<PortWord> port_words_;
};

class ProgramCode {
 public:
  // Reads the file's constants. Throws Error: ATALLA_ERR_UNSUPPORTED for a file without code, or why the device cannot
  // run it; ATALLA_ERR_OUT_OF_MEMORY. `state` is the address of the program's mutable buffers.
  ProgramCode(File& file, Device& device, uint64_t state);

  // Of a method; empty without code.
  const CodeRecords::value_type& records(uint32_t method) const { return records_[method]; }
  // The code of a method without symbols, or null.
  MethodCode* fixed(uint32_t method) { return fixed_[method].get(); }
  // A method's code for the sizes of the view.
  std::unique_ptr<MethodCode> make(const View& view, const Code& code) const;

 private:
  Device& device_;
  DeviceBuffer constants_;
  DeviceBuffer arena_;  // methods share it
  CodePlaces places_{};
  std::map<uint32_t, std::unique_ptr<IsaProgram>> programs_;  // by first packet
  CodeRecords records_;
  std::vector<std::unique_ptr<MethodCode>> fixed_;
};

}  // namespace atalla::runtime::loadable
