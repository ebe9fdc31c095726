// SPDX-License-Identifier: BSD-3-Clause
//
// Records of the loadable format, as docs/loadable-format.md specifies them. The file is little endian, and so is every
// host that this driver supports: records are used in place.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace atalla::runtime::loadable {

static_assert(std::endian::native == std::endian::little, "loadable records are read in place");

inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'A', 'T', 'L', '\r', '\n', 0x1A, '\n'};
inline constexpr uint16_t kMajor = 1;
inline constexpr uint16_t kMinor = 0;
inline constexpr uint32_t kRuntimeVersion = 0x00010000;  // major << 16 | minor of this driver
inline constexpr uint32_t kIsaVersion = 1;               // newest Atalla instruction set that it can execute
inline constexpr uint32_t kNone = 0xFFFFFFFF;
inline constexpr uint64_t kSectionAlignment = 64;
inline constexpr uint64_t kWeightsAlignment = 4096;
inline constexpr uint64_t kStorageAlignment = 64;
inline constexpr uint32_t kMaxSections = 1024;
inline constexpr uint32_t kMustUnderstand = 1;  // section flag

enum class SectionKind : uint32_t {
  kStrings = 1,
  kIntegers = 2,
  kDoubles = 3,
  kKernels = 4,
  kStorages = 5,
  kValues = 6,
  kOperands = 7,
  kInstructions = 8,
  kHostCalls = 9,
  kInputs = 10,
  kOutputs = 11,
  kNodes = 12,
  kSegments = 13,
  kMethods = 14,
  kMetadata = 15,
  kWeights = 16,
};
inline constexpr uint32_t kSectionKinds = 17;  // one more than the last

enum class Space : uint8_t { kArena = 1, kWeights = 2, kInput = 3, kOutput = 4 };
enum class ValueKind : uint8_t { kInput = 1, kOutput, kIntermediate, kParameter, kBuffer, kConstant };
enum class OperandKind : uint8_t { kAbsent = 0, kMemory = 1, kImmediate = 2 };
enum class InstructionKind : uint8_t { kLaunch = 1, kHostCall = 2 };
enum class SegmentKind : uint8_t { kNative = 1, kFallback = 2 };

struct StringRef {
  uint32_t offset;
  uint32_t bytes;
};

struct Range {
  uint32_t first;
  uint32_t count;
};

struct Header {
  std::array<uint8_t, 8> magic;
  uint16_t major;
  uint16_t minor;
  uint32_t header_bytes;
  uint32_t min_runtime;
  uint32_t isa_version;
  uint64_t file_bytes;
  uint64_t table_offset;
  uint32_t section_count;
  uint32_t section_stride;
  uint32_t table_crc;
  uint32_t flags;
  std::array<uint8_t, 68> reserved;
  uint32_t header_crc;
};

struct Section {
  SectionKind kind;
  uint32_t flags;
  uint64_t offset;
  uint64_t bytes;
  uint32_t stride;
  uint32_t crc;
};

struct Kernel {
  StringRef name;
  uint32_t version;
  uint32_t reserved;
};

struct Storage {
  Space space;
  std::array<uint8_t, 7> reserved;
  uint64_t bytes;
  uint64_t offset;
  uint32_t first_live;
  uint32_t last_live;
  StringRef name;
};

struct Value {
  StringRef name;
  uint32_t storage;
  uint8_t dtype;
  ValueKind kind;
  uint8_t ndim;
  uint8_t reserved0;
  uint64_t byte_offset;
  uint32_t sizes;
  uint32_t strides;
  StringRef fqn;
  uint32_t node;
  uint32_t reserved1;
};

struct Operand {
  OperandKind kind;
  uint8_t dtype;
  uint8_t ndim;
  uint8_t reserved0;
  uint32_t storage;
  uint64_t byte_offset;
  uint32_t sizes;
  uint32_t strides;
  std::array<uint8_t, 16> immediate;
  uint32_t value;
  uint32_t reserved1;
};

struct Instruction {
  InstructionKind kind;
  uint8_t compute_dtype;
  uint8_t n_outputs;
  uint8_t reserved;
  uint32_t callee;
  Range operands;
  Range iparams;
  Range fparams;
  uint32_t node;
  uint32_t segment;
};

struct HostCall {
  StringRef program;
  Range inputs;
  Range outputs;
  StringRef ops;
};

// A record of INPUTS or OUTPUTS.
struct Port {
  StringRef name;
  uint32_t value;
  uint32_t guards;
  uint32_t flags;
  uint32_t reserved;
};

struct Node {
  StringRef name;
  StringRef op;
  StringRef reason;
  StringRef source;
  StringRef module;
  uint64_t flops;
  uint32_t op_version;
  uint32_t segment;
  uint8_t native;
  std::array<uint8_t, 7> reserved;
};

struct Segment {
  StringRef name;
  Range nodes;
  Range instructions;
  SegmentKind kind;
  std::array<uint8_t, 7> reserved;
};

struct Method {
  StringRef name;
  Range inputs;
  Range outputs;
  Range instructions;
  Range nodes;
  Range segments;
  uint64_t arena_bytes;
  uint64_t estimate_cycles;
};

struct Metadata {
  StringRef key;
  StringRef value;
};

static_assert(sizeof(Header) == 128 && offsetof(Header, header_crc) == 124 && offsetof(Header, table_crc) == 48);
static_assert(sizeof(Section) == 32 && offsetof(Section, crc) == 28);
static_assert(sizeof(Kernel) == 16);
static_assert(sizeof(Storage) == 40 && offsetof(Storage, name) == 32);
static_assert(sizeof(Value) == 48 && offsetof(Value, byte_offset) == 16 && offsetof(Value, fqn) == 32);
static_assert(sizeof(Operand) == 48 && offsetof(Operand, immediate) == 24 && offsetof(Operand, value) == 40);
static_assert(sizeof(Instruction) == 40 && offsetof(Instruction, node) == 32);
static_assert(sizeof(HostCall) == 32);
static_assert(sizeof(Port) == 24);
static_assert(sizeof(Node) == 64 && offsetof(Node, native) == 56);
static_assert(sizeof(Segment) == 32 && offsetof(Segment, kind) == 24);
static_assert(sizeof(Method) == 64 && offsetof(Method, arena_bytes) == 48);
static_assert(sizeof(Metadata) == 16);

}  // namespace atalla::runtime::loadable
