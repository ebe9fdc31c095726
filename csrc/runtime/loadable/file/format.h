// SPDX-License-Identifier: BSD-3-Clause
//
// Records of the loadable format, as docs/reference/loadable-format.md specifies them. The file is little endian, and
// so is every host that this driver supports: records are used in place.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace atalla::runtime::loadable {

static_assert(std::endian::native == std::endian::little, "loadable records are read in place");

inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'A', 'T', 'L', '\r', '\n', 0x1A, '\n'};
inline constexpr uint16_t kMajor = 1;
inline constexpr uint16_t kMinor = 5;
inline constexpr uint32_t kRuntimeVersion = 0x00010004;  // major << 16 | minor of this driver
inline constexpr uint32_t kIsaVersion = 1;               // newest Atalla instruction set that it can execute
inline constexpr uint32_t kNone = 0xFFFFFFFF;
inline constexpr uint64_t kSectionAlignment = 64;
inline constexpr uint64_t kWeightsAlignment = 4096;
inline constexpr uint64_t kStorageAlignment = 64;
inline constexpr uint64_t kPadAlignment = 256;  // of what lies in a scratchpad
inline constexpr uint32_t kMaxPads = 64;
inline constexpr uint64_t kMaxPadBytes = uint64_t{1} << 30;
inline constexpr uint32_t kMaxSections = 1024;
inline constexpr uint32_t kMostSamples = 64;        // of an output in a golden
inline constexpr uint32_t kCodeVersion = 1;         // how code is called: docs/reference/loadable-format.md, CODE
inline constexpr uint32_t kDividedCodeVersion = 2;  // of code whose calls are divided among cores
inline constexpr uint32_t kCodeLanes = 32;  // code is for a chip of so many lanes, rows and columns of the array,
inline constexpr uint32_t kCodePadBytes = 0x100000;  // and scratchpads of at least so many bytes,
inline constexpr uint32_t kCodeLeastPads = 2;        // of which there are so many
inline constexpr uint32_t kCodeMostPads = 4;
inline constexpr uint32_t kCallNumbers = 3;     // of each call of code
inline constexpr int64_t kAllCores = -1;        // the core of a call that each core makes
inline constexpr uint32_t kMustUnderstand = 1;  // section flag

// The kinds of sections: number, kind, name, and of tables the record and its place in View.
#define ATALLA_LOADABLE_SECTIONS(BYTES, TABLE)                     \
  BYTES(1, kStrings, STRINGS)                                      \
  TABLE(2, kIntegers, INTEGERS, int64_t, integers)                 \
  TABLE(3, kDoubles, DOUBLES, double, doubles)                     \
  TABLE(4, kKernels, KERNELS, Kernel, kernels)                     \
  TABLE(5, kStorages, STORAGES, Storage, storages)                 \
  TABLE(6, kValues, VALUES, Value, values)                         \
  TABLE(7, kOperands, OPERANDS, Operand, operands)                 \
  TABLE(8, kInstructions, INSTRUCTIONS, Instruction, instructions) \
  TABLE(9, kHostCalls, HOST_CALLS, HostCall, host_calls)           \
  TABLE(10, kInputs, INPUTS, Port, inputs)                         \
  TABLE(11, kOutputs, OUTPUTS, Port, outputs)                      \
  TABLE(12, kNodes, NODES, Node, nodes)                            \
  TABLE(13, kSegments, SEGMENTS, Segment, segments)                \
  TABLE(14, kMethods, METHODS, Method, methods)                    \
  TABLE(15, kMetadata, METADATA, Metadata, metadata)               \
  BYTES(16, kWeights, WEIGHTS)                                     \
  TABLE(17, kStates, STATES, State, states)                        \
  TABLE(18, kSymbols, SYMBOLS, Symbol, symbols)                    \
  TABLE(19, kExpressions, EXPRESSIONS, Expression, expressions)    \
  TABLE(20, kDynamic, DYNAMIC, Dynamic, dynamic)                   \
  TABLE(21, kGuards, GUARDS, Guard, guards)                        \
  TABLE(22, kGoldens, GOLDENS, Golden, goldens)                    \
  BYTES(23, kSignature, SIGNATURE)                                 \
  TABLE(24, kResidency, RESIDENCY, Residency, residency)           \
  TABLE(25, kCode, CODE, Code, code)                               \
  TABLE(26, kRelocations, RELOCATIONS, Relocation, relocations)    \
  TABLE(27, kCodeWords, CODE_WORDS, uint32_t, code_words)          \
  TABLE(28, kPackets, PACKETS, Packet, packets)                    \
  BYTES(29, kConstants, CONSTANTS)

#define ATALLA_SECTION_KIND(number, kind, ...) kind = number,
enum class SectionKind : uint32_t { ATALLA_LOADABLE_SECTIONS(ATALLA_SECTION_KIND, ATALLA_SECTION_KIND) };
#undef ATALLA_SECTION_KIND
inline constexpr uint32_t kSectionKinds = static_cast<uint32_t>(SectionKind::kConstants) + 1;

enum class Space : uint8_t { kArena = 1, kWeights = 2, kInput = 3, kOutput = 4, kState = 5 };
enum class ValueKind : uint8_t { kInput = 1, kOutput, kIntermediate, kParameter, kBuffer, kConstant, kState };
enum class OperandKind : uint8_t { kAbsent = 0, kMemory = 1, kImmediate = 2 };
// A random launch draws: the run gives its seed, and where the positions begin that its offset counts from.
enum class InstructionKind : uint8_t { kLaunch = 1, kHostCall = 2, kRandom = 3 };
// Arithmetic of size expressions, on int64; a result that does not fit is an error, as is a division by zero.
enum class ExpressionOp : uint8_t {
  kConstant = 0,
  kSymbol = 1,
  kAdd = 2,
  kSub = 3,
  kMul = 4,
  kFloorDiv = 5,
  kMod = 6,  // of the sign of the divisor
  kMin = 7,
  kMax = 8,
  kEq = 9,
  kNe = 10,
  kLt = 11,
  kLe = 12,
};
inline constexpr unsigned kExpressionOps = 13;
enum class DynamicKind : uint32_t {
  kInteger = 1,        // an entry of INTEGERS
  kOperandOffset = 2,  // byte_offset of an operand
  kValueOffset = 3,    // byte_offset of a value
  kStorageBytes = 4,   // bytes of a storage
  kImmediate = 5,      // value of an immediate operand
};
inline constexpr uint32_t kStateHasInitial = 1;  // flag of a state
inline constexpr uint32_t kPortUpdated = 1;      // flag of an output: the caller gives it with a value
enum class SegmentKind : uint8_t { kNative = 1, kFallback = 2 };
// A relocation counts its address from the first byte of one of these.
enum class Region : uint32_t { kTable = 0, kConstants = 1, kArena = 2, kInput = 3, kOutput = 4, kState = 5 };

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

// 1.2: an ARENA storage that may be placed in a scratchpad instead.
struct Residency {
  uint32_t storage;
  uint32_t pad;
  uint64_t offset;  // in the pages that the program has of that scratchpad
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
  uint8_t cores;  // 1.2: over which the launch is divided; 0: 1
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

// A mutable buffer: a value on a STATE storage, which keeps its bytes from run to run.
struct State {
  StringRef name;
  uint32_t value;
  uint32_t flags;
  uint64_t initial;  // offset in WEIGHTS of its first bytes, with kStateHasInitial; else it begins as zeros
};

// A size that a call determines: dimension `dim` of an input has the size multiplier * symbol + offset.
struct Symbol {
  StringRef name;
  uint32_t method;
  uint32_t input;  // index in INPUTS
  uint32_t dim;
  uint32_t reserved;
  int64_t min;
  int64_t max;
  int64_t multiplier;
  int64_t offset;
  int64_t value;  // for which the numbers in the file are written
};

struct Expression {
  ExpressionOp op;
  std::array<uint8_t, 3> reserved0;
  uint32_t a;  // expressions before this one; SYMBOL: index in SYMBOLS
  uint32_t b;
  uint32_t reserved1;
  int64_t constant;
};

// A number of the file that follows the symbols of a method.
struct Dynamic {
  DynamicKind kind;
  uint32_t index;
  uint32_t expression;
  uint32_t method;
};

// A condition on sizes: the expression must not be 0.
struct Guard {
  StringRef text;
  uint32_t expression;
  uint32_t method;
};

// What a method gives on inputs made from a seed.
struct Golden {
  uint32_t method;
  uint32_t reserved;
  uint64_t seed;
  Range bounds;   // in DOUBLES: low and high of each input's elements
  Range symbols;  // in INTEGERS: values of the method's symbols
  Range samples;  // in DOUBLES: of each output, real and imaginary parts apart
  double rtol;
  double atol;
};

// 1.3: a method as Atalla code, for one assignment of its symbols. The words are the table of its calls.
struct Code {
  uint32_t method;
  uint32_t version;
  Range packets;
  Range words;
  Range relocations;
  uint64_t arena_bytes;
  Range symbols;  // 1.4: in INTEGERS: values of the method's symbols
  Range calls;    // 1.5: in INTEGERS: of each call the address of its function, its core, and the instruction it is for
};

// A word of a table that becomes a DRAM address: that of the region's first byte, plus the offset.
struct Relocation {
  uint32_t word;  // counted from the first word of the code's table
  Region region;
  uint32_t index;  // INPUT, OUTPUT: of the method; STATE: in STATES
  uint32_t reserved;
  uint64_t offset;
};

struct Packet {
  std::array<uint8_t, 20> slots;  // four instructions of 40 bits
};

}  // namespace atalla::runtime::loadable
