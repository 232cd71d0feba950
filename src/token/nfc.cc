#include "token/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"

namespace sluice::token {
namespace {

constexpr uint32_t kFirstMark = 0x300;  // the first character that NFC may change or move

utf8proc_propval_t ClassOf(int32_t point) { return utf8proc_get_property(point)->combining_class; }

// Whether NFC leaves the character alone whatever stands around it. Hangul is composed by
// arithmetic, not by the tables.
bool IsInert(uint32_t point) {
  if (point < kFirstMark) return true;
  if ((point >= 0x1100 && point < 0x1200) || (point >= 0xAC00 && point < 0xD7B0)) return false;
  const utf8proc_property_t& property = *utf8proc_get_property(static_cast<int32_t>(point));
  return property.combining_class == 0 && property.decomp_seqindex == UINT16_MAX &&
         property.comb_index == UINT16_MAX;
}

bool IsNfcAlready(std::string_view text) {
  constexpr unsigned char kFirstLead = 0xCC;  // of kFirstMark
  const auto is_late = [](char c) { return static_cast<unsigned char>(c) >= kFirstLead; };
  if (std::ranges::none_of(text, is_late)) return true;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    if (character.n_bytes > 0 && !IsInert(character.point)) return false;
    text.remove_prefix(std::max<size_t>(1, character.n_bytes));
  }
  return true;
}

void AppendDecomposed(uint32_t point, std::vector<int32_t>& points) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
  constexpr utf8proc_ssize_t kMost = 8;  // of one character: 4 in Unicode 16
  int32_t parts[kMost];
  int boundary = 0;
  const utf8proc_ssize_t n =
      utf8proc_decompose_char(static_cast<int32_t>(point), parts, kMost, kOptions, &boundary);
  SLUICE_CHECK(n > 0 && n <= kMost);
  points.insert(points.end(), parts, parts + n);
}

constexpr int kPointBits = 21;
constexpr uint64_t kPointMask = (uint64_t{1} << kPointBits) - 1;

// Marks between two other characters go by their class. utf8proc's own way would swap neighbours.
void OrderMarks(std::vector<int32_t>& points) {
  const auto is_mark = [](int32_t point) { return ClassOf(point) != 0; };
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if(begin, points.end(), is_mark);
    const auto end = std::find_if_not(begin, points.end(), is_mark);
    // By class, then as they stood; the point itself rides along in the low bits.
    std::vector<uint64_t> keys;
    for (auto at = begin; at != end; ++at) {
      keys.push_back(static_cast<uint64_t>(ClassOf(*at)) << (kPointBits + 32) |
                     static_cast<uint64_t>(at - begin) << kPointBits | static_cast<uint64_t>(*at));
    }
    std::sort(keys.begin(), keys.end());
    for (const uint64_t key : keys) *begin++ = static_cast<int32_t>(key & kPointMask);
  }
}

void AppendComposed(std::vector<int32_t>& points, std::string& composed) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  OrderMarks(points);
  const utf8proc_ssize_t n = utf8proc_normalize_utf32(
      points.data(), static_cast<utf8proc_ssize_t>(points.size()), kOptions);
  SLUICE_CHECK(n >= 0);
  for (utf8proc_ssize_t i = 0; i < n; ++i) {
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n_bytes = utf8proc_encode_char(points[static_cast<size_t>(i)], bytes);
    composed.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n_bytes));
  }
  points.clear();
}

}  // namespace

std::string_view ToNfc(std::string_view text, std::string& composed) {
  if (IsNfcAlready(text)) return text;
  composed.clear();
  composed.reserve(text.size());
  std::vector<int32_t> points;
  while (!text.empty()) {
    const Utf8Character character = FirstCharacter(text);
    if (character.n_bytes == 0) {
      AppendComposed(points, composed);
      composed += text[0];
      text.remove_prefix(1);
      continue;
    }
    AppendDecomposed(character.point, points);
    text.remove_prefix(character.n_bytes);
  }
  AppendComposed(points, composed);
  return composed;
}

}  // namespace sluice::token
