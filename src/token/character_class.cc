#include "token/character_class.h"

#include <vector>

namespace sluice::token {
namespace {

struct Range {
  uint32_t first, last;
  CharacterClass character_class;
};

constexpr Range kRanges[] = {
#include "token/unicode_tables.inc"
};

// The second split of the released tokenizer (spec recipe.md §10).
constexpr Range kCjkRanges[] = {{0x3040, 0x30FF, kCjk}, {0x4E00, 0x9FA5, kCjk}};

void Mark(std::vector<uint8_t>& classes, const Range& range) {
  for (uint32_t point = range.first; point <= range.last; ++point) {
    classes[point] |= range.character_class;
  }
}

// One byte for each code point: text keeps to a few of its pages, and a lookup is one load.
std::vector<uint8_t> BuildClasses() {
  std::vector<uint8_t> classes(kMaxCodePoint + 1);
  for (const Range& range : kRanges) Mark(classes, range);
  for (const Range& range : kCjkRanges) Mark(classes, range);
  classes['\r'] |= kNewline;
  classes['\n'] |= kNewline;
  return classes;
}

}  // namespace

const uint8_t* CharacterClasses() {
  static const std::vector<uint8_t> kClasses = BuildClasses();
  return kClasses.data();
}

}  // namespace sluice::token
