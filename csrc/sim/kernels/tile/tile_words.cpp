// SPDX-License-Identifier: BSD-3-Clause
//
// Each word of a step is checked against csrc/sim/tile_steps.yaml, which describes the words of its operation.
#include <iterator>

#include "sim/kernels/tile/tile_program.h"

namespace atalla::sim::ATALLA_ISA {
namespace {

const char* expected(TileWordKind kind) {
  switch (kind) {
    case TileWordKind::kValueOrNone:
      return "a value of the program or -1";
    case TileWordKind::kMaskOrNone:
      return "a value of flags or -1";
    case TileWordKind::kText:
      return "a text of the program";
    case TileWordKind::kDtype:
      return "a dtype that is not complex";
    case TileWordKind::kNumber:
      return "a number of the range in tile_steps.yaml";
    default:
      return "a value of the program";
  }
}

}  // namespace

bool TileProgram::fits(const TileWord& word, int64_t number) const {
  switch (word.kind) {
    case TileWordKind::kValueOrNone:
      return number == -1 || is_value(number);
    case TileWordKind::kMaskOrNone:
      return number == -1 || (is_value(number) && values_[number].dtype == ATALLA_BOOL);
    case TileWordKind::kText:
      return number >= 0 && number < n_texts_;
    case TileWordKind::kDtype:
      return number >= 0 && number < kDtypeCodes && is_dtype(static_cast<atalla_dtype>(number)) &&
             !is_complex(static_cast<atalla_dtype>(number));
    case TileWordKind::kNumber:
      return number >= word.low && number <= word.high;
    default:
      return is_value(number);
  }
}

// The word that does not fit, or null; `*at` moves behind the words. A word that is missing does not fit.
const TileWord* TileProgram::misfit(const TileStep& step, const TileWord* words, int n_words, int64_t* at) const {
  for (int k = 0; k < n_words; ++k) {
    const TileWord& word = words[k];
    const int64_t n = step.count(word, *at);
    if (n > step.n_words - *at) {
      *at = step.n_words;
      return &word;
    }
    for (int64_t i = 0; i < n; ++i, ++*at)
      if (!fits(word, step.words[*at])) return &word;
  }
  return nullptr;
}

bool TileProgram::has_words(const TileStep& step) const {
  const TileStepKind& kind = kTileSteps[static_cast<size_t>(step.op)];
  int64_t at = 0;
  return misfit(step, kind.words, kind.n_words, &at) == nullptr;
}

// Sets where the bodies end as well: their lengths are the last words.
atalla_status TileProgram::check_words(TileStep& step, int64_t number) const {
  const TileStepKind& kind = kTileSteps[static_cast<size_t>(step.op)];
  int64_t at = 0;
  const TileWord* wrong = misfit(step, kind.words, kind.n_words, &at);
  for (int k = 0; k < kind.n_forms && wrong == nullptr && at < step.n_words; ++k)
    if (step.n_words - at == kind.forms[k].n_words)
      wrong = misfit(step, kind.forms[k].words, kind.forms[k].n_words, &at);
  if (wrong != nullptr && at < step.n_words)
    return fail(launch_, ATALLA_ERR_ARGUMENT, "step {} ({}) is malformed: {} is {}, expected {}", number, kind.name,
                wrong->name, step.words[at], expected(wrong->kind));
  if (wrong != nullptr || step.n_words - at != kind.bodies)
    return fail(launch_, ATALLA_ERR_ARGUMENT, "step {} ({}) is malformed: it has {} words", number, kind.name,
                step.n_words);
  for (; at < step.n_words; ++at) {
    const int64_t length = step.words[at];
    if (length < 0 || length > n_steps_ - step.end)
      return fail(launch_, ATALLA_ERR_ARGUMENT, "step {} ({}) is malformed: a body of {} steps", number, kind.name,
                  length);
    step.middle = step.end;
    step.end += static_cast<int32_t>(length);
  }
  return ATALLA_OK;
}

}  // namespace atalla::sim::ATALLA_ISA
